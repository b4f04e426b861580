"""Cluster: several instances of one model that serve requests and write one log.

    submit ── route ──► prefill instance: prefill, one token, hold ── offer ──► decode instance: pull, decode
                  └───► mixed instance: prefill and decode

With only mixed instances a request stays where it was routed. A cluster is called on one thread; its instances may be
processes that compute in parallel (`instance.py`). An instance that ends loses its sequences and is restarted empty. A
prompt that was computed there is recomputed elsewhere; a request that already has output tokens is aborted, because a
second answer would differ from the first.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from engine.cluster.dispatch import Dispatch
from engine.cluster.inflight import InflightRequest, Submitted, may_move
from engine.cluster.instance import Instance, InstanceGoneError, Produced, RoutedRequest
from engine.cluster.one_log import OneLog
from engine.cluster.router import Router
from engine.config import ConfigError, EngineConfig
from engine.connector.link import RemoteBlocks
from engine.connector.peer import wait_for_any
from engine.connector.wakeup import Wakeup
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.model.recompute import Recomputed, RecomputeError, recompute_sequence
from engine.model.sampling import derived_seed
from engine.options.refusal import sentence
from engine.requests.request_spec import RequestError, RequestSpec
from engine.setup.header import header_of
from engine.trace.log import TraceWriter
from engine.trace.operations import Fork, Submit
from engine.trace.records import StepRecord

LONGEST_WAIT = 0.05  # seconds: upper bound of a step's wait for a message of an instance
MAX_QUEUED_TURNS = 2  # turns of a process while steps follow each other: one computes, one is queued

StartInstance = Callable[[int, int], Instance]


class Cluster:
    """Instances of one model behind one interface.

    Args:
        model: model of the instances; the cluster uses it to tokenize and to recompute attention.
        config: resolved configuration of the cluster.
        instances: instances in the order of the log.
        router: chooses the instance of a request.
        start_instance: restarts the instance of an index, with a first sequence id. If it is None or raises
            InstanceGoneError, the instance is not restarted and its requests are rescheduled elsewhere.
        closed: called on close.
        began: start of the log as a `time.perf_counter` value; the instances use the same one.
    """

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        instances: Sequence[Instance],
        router: Router,
        *,
        start_instance: StartInstance | None = None,
        closed: Callable[[], object] = lambda: None,
        log_path: Path | None = None,
        capture: CaptureRequest | None = None,
        began: float,
    ) -> None:
        self.model, self.instances = model, list(instances)
        self._start_instance, self._closed, self._began = start_instance, closed, began
        self.dispatch = Dispatch(router, self.instances)
        self.config = config
        header = header_of(model, config, self.instances[0].block_groups)
        self._log = OneLog(header, self.instances, log_path, config.private)
        self._requests = self.dispatch.requests
        self._num_requests = 0
        self._next_seq_ids = list(range(len(self.instances)))  # per instance: greater than all assigned ids
        self._turn = 0  # index of the instance on this thread that runs next
        self._last: StepRecord | None = None
        self._wakeup = Wakeup()
        self._capture = capture
        self.observe(capture)

    @property
    def log(self) -> TraceWriter:
        return self._log.writer

    @property
    def num_unfinished(self) -> int:
        """Number of unfinished requests; if 0, number of sequences whose blocks are held for another instance."""
        return len(self._requests) or sum(one.load.holding for one in self.instances)

    @property
    def queue_lengths(self) -> tuple[int, int]:
        """Numbers of running and waiting sequences on all instances; waiting includes requests in transit."""
        loads = [one.load for one in self.instances]
        sent = sum(not request.is_confirmed for request in self._requests.values())
        return sum(load.running for load in loads), sent + sum(load.waiting + load.receiving for load in loads)

    def prefill_pending(self) -> bool:
        """Return whether any prompt is not computed yet, or has not arrived at its decode instance."""
        return any(request.part == "prefill" or not request.has_output for request in self._requests.values())

    # Submission

    def check(self, specs: Sequence[RequestSpec]) -> None:
        """Check requests without submitting them.

        Raises:
            RequestError, ConfigError: `submit` would refuse a request.
        """
        self._check(self._complete_all(specs))

    def _check(self, specs: Sequence[RequestSpec]) -> None:
        """Check specs whose request ids are set."""
        taken = set(self._requests)
        for spec in specs:
            if spec.request_id in taken:
                raise RequestError(sentence("request.id", request_id=spec.request_id), "request_id")
            if spec.request_id is not None:
                taken.add(spec.request_id)
        for one in self.instances:
            with contextlib.suppress(InstanceGoneError):
                if one.role != "prefill":
                    one.check(specs)
                elif moving := [InflightRequest.prefill_of(spec, None) for spec in specs if may_move(spec)]:
                    one.check(moving)

    def submit(self, specs: Sequence[RequestSpec]) -> list[Submitted]:
        """Submit all requests or none. Waits for the instances, and processes their messages meanwhile.

        Raises:
            RequestError, ConfigError, RejectedError: a request is refused.
            InstanceGoneError: an instance ended before it confirmed its request.
        """
        requests = self._send_new(specs)
        self._take_all()
        running = [one for one in self.instances if one.num_turns]
        while waited := [request for request in requests if request.seq_id is None]:
            if lost := [request for request in waited if request.request_id not in self._requests]:
                raise InstanceGoneError(sentence("instances.ended_before", request_id=lost[0].request_id))
            self._receive(LONGEST_WAIT)
            for one in running:
                if not one.num_turns and one.load.can_step:
                    with contextlib.suppress(InstanceGoneError):
                        one.begin_turn()
        return [
            Submitted(request.request_id, request.seq_id, request.num_prompt_tokens)
            for request in requests
            if request.seq_id is not None
        ]

    def send(self, specs: Sequence[RequestSpec]) -> list[str]:
        """Submit all requests or none, without waiting for any instance. Returns the request ids.

        Raises:
            RequestError, ConfigError, RejectedError: a request is refused.
        """
        requests = self._send_new(specs)
        self._take_all()
        return [request.request_id for request in requests]

    def _send_new(self, specs: Sequence[RequestSpec]) -> list[InflightRequest]:
        specs = self._complete_all(specs)
        self._check(specs)
        requests = [InflightRequest(spec) for spec in specs]
        self.dispatch.add(requests)
        self._num_requests += len(requests)
        for request in requests:
            self._send(request)
        return requests

    def abort(self, request_id: str) -> bool:
        """Abort a request. Returns False if it is unknown or already finished."""
        request = self._requests.pop(request_id, None)
        if request is None:
            return False
        with contextlib.suppress(InstanceGoneError):
            self.instances[request.instance].abort(request.sent_id)
        self._take_all()
        return True

    def observe(self, capture: CaptureRequest | None) -> None:
        """Set which arrays the next steps record."""
        self._capture = capture
        for one in self.instances:
            with contextlib.suppress(InstanceGoneError):
                one.observe(capture)

    def lose(self, index: int) -> None:
        """Kill an instance.

        Raises:
            ConfigError: there is no such instance.
        """
        if not 0 <= index < len(self.instances):
            raise ConfigError(sentence("instances.none", index=index, number=len(self.instances) - 1))
        self.instances[index].kill()
        self._take_all()

    # Steps

    def step(self, wait: float = LONGEST_WAIT, goes_on: bool = False) -> StepRecord | None:
        """Run the instances. Returns the last new record, or None if there is none within `wait` seconds.

        Instances of this thread take turns. Processes compute in parallel; their messages are processed in order of
        arrival. `goes_on`: more steps follow until `rest`, so a process may begin its next turn at once.

        Raises:
            Exception: a forward pass failed. The batch's requests are aborted; the instance and the log stay valid.
        """
        self._last = None
        self._take_all()  # instances that ended meanwhile are restarted
        processes = [one for one in self.instances if one.waits_on is not None]
        for one in processes:
            self._begin_turns(one, MAX_QUEUED_TURNS if goes_on else 1)
        local = [one for one in self.instances if one.waits_on is None and self._has_work(one)]
        if local:
            local.sort(key=lambda one: (self.instances.index(one) - self._turn) % len(self.instances))
            for one in local:
                one.begin_turn()
                self._turn = self.instances.index(one) + 1
                self._take_all()
                if self._last is not None:
                    break
        self._take_all()
        if self._last is None and processes:
            self._receive(min(wait, LONGEST_WAIT))
        elif self._last is None and self.num_unfinished:
            time.sleep(min(wait, LONGEST_WAIT / 10))  # wait for a lease or a link
        for one in self.instances:
            if (error := one.take_error()) is not None:
                raise RuntimeError(f"instance {one.name}: {error}")
        return self._last

    def rest(self) -> None:
        """Wait until no turn is running. Begins no new turn."""
        self._take_all()
        while any(one.num_turns for one in self.instances):
            self._receive(LONGEST_WAIT)

    def wake(self) -> None:
        """Wake up a waiting step. Thread-safe."""
        self._wakeup.ring()

    def recompute_attention(
        self,
        seq_id: int,
        layer: int | None,
        heads: Sequence[int] | None,
        num_tokens: int | None,
        residual: int = 0,
    ) -> Recomputed:
        """Recompute attention for a sequence of any instance, as `Engine.recompute_attention` does.

        Raises:
            RecomputeError: the sequence is unknown, has fewer than `num_tokens` tokens, or has too many to recompute.
        """
        if self.config.private:
            raise RecomputeError(sentence("private"))
        sequence = self.log.state_now().sequences.get(seq_id)
        if sequence is None:
            raise RecomputeError(sentence("sequence.none", seq_id=seq_id))
        count = len(sequence.token_ids) if num_tokens is None else num_tokens
        if count > len(sequence.token_ids):
            raise RecomputeError(
                sentence("sequence.tokens", seq_id=seq_id, num_token_ids=len(sequence.token_ids), count=count)
            )
        token_ids = sequence.token_ids[:count]
        settings = self.config.kv_cache_dtype, self.config.policy
        return recompute_sequence(self.model, seq_id, token_ids, layer, heads, *settings, residual=residual)

    def release(self) -> None:
        """End all transfers that wait for a link. No step may follow."""
        for one in self.instances:
            one.release()

    def close(self) -> None:
        """Close the instances, then the log. Idempotent."""
        with contextlib.ExitStack() as ending:
            ending.callback(self.log.close)
            ending.callback(self._wakeup.close)
            ending.callback(self._closed)
            for one in self.instances:
                ending.callback(one.close)

    # Life cycle of a request

    def _complete_all(self, specs: Sequence[RequestSpec]) -> list[RequestSpec]:
        return [self._complete(spec, self._num_requests + index) for index, spec in enumerate(specs)]

    def _complete(self, spec: RequestSpec, number: int) -> RequestSpec:
        """Set the request id, token ids and seed here, because the instances would choose them independently."""
        prompt, sampling = spec.prompt, spec.sampling
        if isinstance(prompt, str):
            if self.model.tokenizer is None:
                raise RequestError(sentence("request.no_tokenizer"))
            prompt = self.model.tokenizer.encode(prompt)
        if sampling.seed is None:
            sampling = replace(sampling, seed=derived_seed(self.config.seed, number))
        return spec._replace(prompt=list(prompt), sampling=sampling, request_id=spec.request_id or f"request-{number}")

    def _send(self, request: InflightRequest, remote: RemoteBlocks | None = None) -> None:
        spec, one = request.sent_spec, self.instances[request.instance]
        if remote is not None and remote.engine_id == one.name:
            remote = None  # no decode instance is left, so its prefill instance decodes it
        if remote is not None:
            spec = spec._replace(transfer=remote.transfer, kv_role="kv_consumer")
            self._log.expect(remote.transfer, request.instance)
        with contextlib.suppress(InstanceGoneError):  # reported after its earlier messages are processed
            one.send([RoutedRequest(spec, remote)])

    def _send_decode(self, request: InflightRequest, remote: RemoteBlocks | None) -> None:
        """Send a request to its decode instance, after its prefill or if there is no prefill instance."""
        self.dispatch.route_decode(request)
        self._send(request, remote)

    def _receive(self, seconds: float) -> None:
        """Wait at most `seconds` for a message of an instance process, then process all messages."""
        files = [one.waits_on for one in self.instances if one.waits_on is not None]
        wait_for_any([*files, self._wakeup.fileno()], seconds)
        self._wakeup.drain()
        self._take_all()

    def _take_all(self) -> None:
        """Process the output of all instances until there is none, because processing may cause more output."""
        changed = True
        while changed:
            changed = False
            for index, one in enumerate(self.instances):
                found = one.take()
                for produced in found:
                    changed = True
                    self._take(index, produced)
                if (cause := one.take_exit_cause()) is not None:
                    changed = True
                    self._lose(index, cause)

    def _take(self, index: int, produced: Produced) -> None:
        for record in self._log.take(index, produced.record, produced.capture):
            self._last = record
        self.dispatch.note(index, produced.record)
        for op in produced.record.ops:
            if isinstance(op, Submit | Fork):
                self._next_seq_ids[index] = op.seq_id + len(self.instances)
        for remote in produced.offers:
            request = self.dispatch.request_of(remote.transfer)
            if request is not None:
                self._send_decode(request, remote)

    def _lose(self, index: int, cause: str) -> None:
        """Handle the end of an instance: abort or reroute its requests, and restart it if possible."""
        at, given_up = time.perf_counter() - self._began, self.dispatch.given_up(index)
        for record in self._log.lost(index, cause, at, given_up):
            self._last = record
        lost = self.dispatch.instance_ended(index)
        with contextlib.suppress(Exception):
            self.instances[index].close()
        if self._start_instance is not None:
            with contextlib.suppress(InstanceGoneError):  # the instance is not restarted
                self.instances[index] = self._start_instance(index, self._next_seq_ids[index])
                self.instances[index].observe(self._capture)
        for request in lost:
            self.dispatch.reroute(request)
            self._send(request)

    def _begin_turns(self, one: Instance, count: int) -> None:
        """Begin turns of a process, which runs them in parallel with others."""
        if self._has_work(one):
            with contextlib.suppress(InstanceGoneError):
                for _ in range(one.num_turns, count):
                    one.begin_turn()

    @staticmethod
    def _has_work(one: Instance) -> bool:
        load = one.load
        return load.can_step or load.receiving > 0 or load.holding > 0
