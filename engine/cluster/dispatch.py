"""Choice of the instance for each request, by the records of the instances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from engine.cluster.inflight import InflightRequest, may_move
from engine.cluster.router import Candidate, RejectedError, Router
from engine.requests.load import Load
from engine.trace.disagg_ids import plain_id
from engine.trace.operations import Finish, Fork, Submit
from engine.trace.records import InstanceRole, StepRecord

MAX_RETRIES = 1  # of a prefill whose instance ended; after that, the decode instance computes the prompt


class DispatchedInstance(Protocol):
    """The part of an instance's interface that `Dispatch` uses."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> InstanceRole: ...
    @property
    def is_ready(self) -> bool: ...
    @property
    def load(self) -> Load: ...


class Dispatch:
    """The unfinished requests of a cluster.

    Args:
        router: chooses among the instances.
        instances: list of the cluster, which replaces an instance that was restarted.
    """

    def __init__(self, router: Router, instances: Sequence[DispatchedInstance]) -> None:
        self.requests: dict[str, InflightRequest] = {}  # by request id
        self.router, self._instances = router, instances
        self._of_sequence: dict[int, InflightRequest] = {}
        self._num_transfers = 0

    def add(self, requests: Iterable[InflightRequest]) -> None:
        """Route each request; all or none.

        Raises:
            RejectedError: no instance is expected to give a first token in time.
        """
        added = list[InflightRequest]()
        try:
            for request in requests:
                added.append(request)
                self.requests[request.request_id] = request
                self.route_prompt(request)
        except RejectedError:
            for request in added:
                self.requests.pop(request.request_id, None)
            raise

    def route_prompt(self, request: InflightRequest, is_accepted: bool = False) -> None:
        """Route the prompt to a prefill instance if there is one, or else to its decode instance.

        Raises:
            RejectedError: no instance is expected to meet the objective, and the request was not accepted before.
        """
        self._num_transfers += 1
        is_prefill = {one.role == "prefill" for one in self._instances if one.is_ready}
        moves = may_move(request.spec) and is_prefill == {True, False}
        request.part = "prefill" if moves else "whole"
        request.transfer = f"{request.request_id}#{self._num_transfers}"
        self._route(request, is_accepted)

    def route_decode(self, request: InflightRequest) -> None:
        """Route the request to the instance that decodes it, and computes its prompt if no other instance did."""
        request.part = "whole"
        self._route(request, is_accepted=True)

    def request_of(self, transfer: str) -> InflightRequest | None:
        """Return the request whose keys and values are moved by that transfer."""
        return next((request for request in self.requests.values() if request.transfer == transfer), None)

    def note(self, index: int, record: StepRecord) -> None:
        self.router.note(self._instances[index].name, record)
        for output in record.outputs:
            if output.seq_id in self._of_sequence:
                self._of_sequence[output.seq_id].has_output = True
        finished = list[InflightRequest]()
        for op in record.ops:
            match op:
                case Submit():
                    request = self.requests.get(plain_id(op.request_id))
                    if request is not None:
                        self._of_sequence[op.seq_id] = request
                        request.num_unfinished += 1
                        request.seq_id = op.seq_id if request.seq_id is None else request.seq_id
                        request.is_confirmed = True
                case Fork() if op.parent_seq_id in self._of_sequence:
                    request = self._of_sequence[op.seq_id] = self._of_sequence[op.parent_seq_id]
                    request.num_unfinished += 1
                case Finish() if op.seq_id in self._of_sequence:
                    request = self._of_sequence.pop(op.seq_id)
                    request.num_unfinished -= 1
                    if not request.num_unfinished and (request.part == "whole" or op.reason == "abort"):
                        finished.append(request)
                case _:
                    pass
        for request in finished:
            self.requests.pop(request.request_id, None)

    def given_up(self, index: int) -> list[int]:
        """Return the sequences of the instance whose requests cannot be restarted if it ends."""
        return [seq_id for seq_id, one in self._of_sequence.items() if one.instance == index and one.ends_with_instance]

    def instance_ended(self, index: int) -> list[InflightRequest]:
        """Handle the end of an instance. Returns its requests that can be restarted; drops the others."""
        self.router.instance_ended(self._instances[index].name)
        lost = [request for request in self.requests.values() if request.instance == index]
        self._of_sequence = {i: request for i, request in self._of_sequence.items() if request not in lost}
        finished = [request for request in lost if request.ends_with_instance]
        for request in finished:
            del self.requests[request.request_id]
        return [request for request in lost if request not in finished]

    def reroute(self, request: InflightRequest) -> None:
        """Reroute a request whose instance has ended."""
        request.num_unfinished, request.retries = 0, request.retries + 1
        if request.retries > MAX_RETRIES:
            self.route_decode(request)
        else:
            self.route_prompt(request, is_accepted=True)

    def _route(self, request: InflightRequest, is_accepted: bool) -> None:
        """Choose the instance for the next part of the request."""
        instances = self._instances
        wanted = ("prefill",) if request.part == "prefill" else ("decode", "mixed")
        ready = [i for i, one in enumerate(instances) if one.is_ready] or list(range(len(instances)))
        indices = [i for i in ready if instances[i].role in wanted] or ready
        request.num_queued_tokens = 0  # it is not queued on any instance now
        decoders = [i for i, one in enumerate(instances) if request.part == "prefill" and one.role != "prefill"]
        choice = self.router.choose(
            request.token_ids, request.spec.cache_salt, self.candidates(indices), self.candidates(decoders), is_accepted
        )
        request.num_queued_tokens = request.num_prompt_tokens - choice.chosen.num_hit_tokens
        request.instance = indices[choice.index]
        request.has_output = request.is_confirmed = False

    def candidates(self, indices: Sequence[int]) -> list[Candidate]:
        """Return the instances of those indices as candidates for the router."""
        queued, sent = dict.fromkeys(indices, 0), dict.fromkeys(indices, 0)
        for request in self.requests.values():
            if request.instance in queued and not request.has_output:
                queued[request.instance] += request.num_queued_tokens
                sent[request.instance] += not request.is_confirmed and request.num_queued_tokens > 0
        loads = {i: self._instances[i].load for i in indices}
        loads = {i: load._replace(waiting=load.waiting + sent[i]) for i, load in loads.items()}
        return [Candidate(self._instances[i].name, loads[i], queued[i]) for i in indices]
