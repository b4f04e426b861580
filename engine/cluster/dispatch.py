"""Dispatch: the instance of each request, and where it is sent next. Uses the reports of instances, not engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from engine.cluster.inflight import InflightRequest, may_move
from engine.cluster.router import Candidate, RejectedError, Router
from engine.requests.load import Load
from engine.trace.disagg_ids import plain_id
from engine.trace.operations import Finish, Fork, Submit
from engine.trace.records import InstanceRole, StepRecord

MAX_RETRIES = 1  # of a prompt whose instance ended; then its decode instance computes it


class Reached(Protocol):
    """Interface of an instance that the dispatch depends on."""

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
        router: where requests go.
        instances: the cluster's own list, in which one may be replaced.
    """

    def __init__(self, router: Router, instances: Sequence[Reached]) -> None:
        self.flights: dict[str, InflightRequest] = {}  # by request id
        self.router, self._instances = router, instances
        self._of_sequence: dict[int, InflightRequest] = {}
        self._num_transfers = 0

    def add(self, flights: Iterable[InflightRequest]) -> None:
        """Route each request; all or none.

        Raises:
            RejectedError: no instance is expected to give a first token in time.
        """
        added = list[InflightRequest]()
        try:
            for flight in flights:
                added.append(flight)
                self.flights[flight.request_id] = flight
                self.begin(flight)
        except RejectedError:
            for flight in added:
                self.flights.pop(flight.request_id, None)
            raise

    def begin(self, flight: InflightRequest, is_accepted: bool = False) -> None:
        """Route the prompt: to a prefill instance, or else to where it decodes.

        Raises:
            RejectedError: no instance is expected to meet the objective, and the request was not accepted before.
        """
        self._num_transfers += 1
        there = {one.role == "prefill" for one in self._instances if one.is_ready}
        moves = may_move(flight.spec) and there == {True, False}
        flight.part = "prefill" if moves else "whole"
        flight.transfer = f"{flight.request_id}#{self._num_transfers}"
        self._route(flight, is_accepted)

    def go_on(self, flight: InflightRequest) -> None:
        """Route the decode: its prompt is computed, or no prefill instance is left."""
        flight.part = "whole"
        self._route(flight, is_accepted=True)

    def waits_for(self, transfer: str) -> InflightRequest | None:
        """Return the request whose keys and values move under that name."""
        return next((flight for flight in self.flights.values() if flight.transfer == transfer), None)

    def note(self, index: int, record: StepRecord) -> None:
        """Process the next record of an instance."""
        self.router.note(self._instances[index].name, record)
        for output in record.outputs:
            if output.seq_id in self._of_sequence:
                self._of_sequence[output.seq_id].has_output = True
        over = list[InflightRequest]()
        for op in record.ops:
            match op:
                case Submit():
                    flight = self.flights.get(plain_id(op.request_id))
                    if flight is not None:
                        self._of_sequence[op.seq_id] = flight
                        flight.num_unfinished += 1
                        flight.seq_id = op.seq_id if flight.seq_id is None else flight.seq_id
                        flight.is_taken = True
                case Fork() if op.parent_seq_id in self._of_sequence:
                    flight = self._of_sequence[op.seq_id] = self._of_sequence[op.parent_seq_id]
                    flight.num_unfinished += 1
                case Finish() if op.seq_id in self._of_sequence:
                    flight = self._of_sequence.pop(op.seq_id)
                    flight.num_unfinished -= 1
                    if not flight.num_unfinished and (flight.part == "whole" or op.reason == "abort"):
                        over.append(flight)
                case _:
                    pass
        for flight in over:
            self.flights.pop(flight.request_id, None)

    def given_up(self, index: int) -> list[int]:
        """Return the sequences there whose requests are over if the instance ends."""
        return [seq_id for seq_id, one in self._of_sequence.items() if one.instance == index and one.cannot_begin_again]

    def gone(self, index: int) -> list[InflightRequest]:
        """Handle the end of an instance; return its requests. A request that had begun to answer is over."""
        self.router.gone(self._instances[index].name)
        lost = [flight for flight in self.flights.values() if flight.instance == index]
        self._of_sequence = {i: flight for i, flight in self._of_sequence.items() if flight not in lost}
        over = [flight for flight in lost if flight.cannot_begin_again]
        for flight in over:
            del self.flights[flight.request_id]
        return [flight for flight in lost if flight not in over]

    def again(self, flight: InflightRequest) -> None:
        """Reroute a request whose instance has ended."""
        flight.num_unfinished, flight.retries = 0, flight.retries + 1
        if flight.retries > MAX_RETRIES:
            self.go_on(flight)
        else:
            self.begin(flight, is_accepted=True)

    def _route(self, flight: InflightRequest, is_accepted: bool) -> None:
        """Choose the instance that takes the request, or what is left of it."""
        instances = self._instances
        wanted = ("prefill",) if flight.part == "prefill" else ("decode", "mixed")
        there = [i for i, one in enumerate(instances) if one.is_ready] or list(range(len(instances)))
        indices = [i for i in there if instances[i].role in wanted] or there
        flight.num_queued_tokens = 0  # it is queued nowhere yet, or no longer
        then = [i for i, one in enumerate(instances) if flight.part == "prefill" and one.role != "prefill"]
        choice = self.router.choose(
            flight.token_ids, flight.spec.cache_salt, self.candidates(indices), self.candidates(then), is_accepted
        )
        flight.num_queued_tokens = flight.num_prompt_tokens - choice.chosen.num_hit_tokens
        flight.instance = indices[choice.index]
        flight.has_output = flight.is_taken = False

    def candidates(self, indices: Sequence[int]) -> list[Candidate]:
        """Return those instances as candidates for the router."""
        queued, sent = dict.fromkeys(indices, 0), dict.fromkeys(indices, 0)
        for flight in self.flights.values():
            if flight.instance in queued and not flight.has_output:
                queued[flight.instance] += flight.num_queued_tokens
                sent[flight.instance] += not flight.is_taken and flight.num_queued_tokens > 0
        loads = {i: self._instances[i].load for i in indices}
        loads = {i: load._replace(waiting=load.waiting + sent[i]) for i, load in loads.items()}
        return [Candidate(self._instances[i].name, loads[i], queued[i]) for i in indices]
