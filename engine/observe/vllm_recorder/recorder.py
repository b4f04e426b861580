"""Converts calls of vLLM's scheduler to records. Does not import vLLM; requests are duck-typed.

There is a record for each submission, each step (schedule, writes, samples, finished requests) and each abort.
Operations are in the order of this project's engine: hashes of running sequences after all allocations, and a sample
before the finish that it causes. This order leads to the same state of the pool.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.cache.prefix_memory import PrefixMemory
from engine.model.detokenizer import IncrementalDetokenizer
from engine.observe.vllm_recorder.blocks import Blocks
from engine.observe.vllm_recorder.errors import WatchError
from engine.observe.vllm_recorder.request import RecordedRequest, VllmRequest, phase_of, public_name
from engine.observe.vllm_recorder.scheduling import Scheduling
from engine.observe.vllm_recorder.terms import Settings
from engine.trace.log import TraceWriter
from engine.trace.operations import Defer, Finish, FinishReason, Op, Sample, Submit
from engine.trace.records import BatchEntry, Output, RecordKind, StepRecord, Timing

FINISHED: dict[str, FinishReason] = {"FINISHED_STOPPED": "stop", "FINISHED_LENGTH_CAPPED": "length"}
logger = logging.getLogger("kvtheater")


class Recorder:
    """Recorder of a run. `call` never raises: on the first error the log ends, and `ended` has the reason."""

    def __init__(
        self,
        log: TraceWriter,
        settings: Settings,
        token_bytes: Callable[[int], bytes] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`token_bytes`: returns the bytes of a token; None: texts are not recorded."""
        self.log = log
        self.ended: str | None = None
        self._settings = settings
        self._token_bytes = token_bytes or (lambda _: b"")
        self._clock, self._began = clock, clock()
        self._ops: list[Op] = []
        self._entries: list[BatchEntry] = []
        self._outputs: list[Output] = []
        # Batch entries whose output is not processed yet: request, start, number of tokens.
        self._unprocessed: list[tuple[RecordedRequest, int, int]] = []
        self._by_name: dict[str, RecordedRequest] = {}
        self._num_requests = self._num_steps = 0
        self._is_stepping = False  # True from the beginning of a schedule until the step's output is processed
        self._blocks = Blocks(settings.num_blocks, settings.block_size, settings.kv_bytes_per_token, self._emit)
        self._memory = PrefixMemory()
        self._scheduling = Scheduling(settings, self._blocks, self._memory, self._emit)
        self._schedule_seconds = self._forward_seconds = 0.0
        self._scheduled_at = self._updating_at = self._began

    def call(self, method: Callable[..., None], *arguments: Any, **options: Any) -> None:
        """Call a method of this recorder, unless the log has ended."""
        if self.ended is not None:
            return
        try:
            method(*arguments, **options)
        except Exception as error:  # an error must never reach the recorded engine
            self.ended = f"the log of this run has ended after {len(self.log)} records: {error}"
            logger.warning("kvtheater: %s; the engine continues", self.ended)

    def close(self) -> None:
        self.log.close()

    # between two steps

    def arrived(self, request: VllmRequest) -> None:
        """Record a request that enters the waiting queue."""
        if request.request_id in self._by_name:
            raise WatchError(f"request {request.request_id} has a prompt in parts, which cannot be recorded")
        if request.prompt_token_ids is None:
            raise WatchError(f"request {request.request_id} has no token ids, only embeddings")
        name = public_name(request.request_id, self._by_name.values())
        one = RecordedRequest(self._num_requests, name, request, list(request.prompt_token_ids))
        self._num_requests += 1
        self._by_name[request.request_id] = one
        self._emit(
            Submit(
                seq_id=one.seq_id,
                queue_position=self._scheduling.queue(one),
                request_id=name,
                prompt_token_ids=list(one.token_ids),
                prompt_token_bytes=[self._token_bytes(token_id) for token_id in one.token_ids],
                max_tokens=int(request.max_tokens),
                priority=int(request.priority),
                cache_salt=request.cache_salt,
                sampling=one.sampling,
            )
        )
        if not self._is_stepping:
            self._append("submit")

    def changed_between_steps(self) -> None:
        """Record aborts or a cache reset between steps. Those during a step are part of its record."""
        if self._ops and not self._is_stepping:
            is_abort = any(isinstance(op, Finish) for op in self._ops)
            self._append("abort" if is_abort else "adjust")

    def cache_reset(self) -> None:
        self._blocks.forget_all()

    # one step: calls of vLLM's manager and pool in order

    def scheduling(self) -> None:
        """Begin the schedule of a step."""
        self._scheduled_at, self._is_stepping = self._clock(), True
        self._unprocessed, self._outputs, self._entries = [], [], []
        self._blocks.step, self._blocks.record = self._num_steps, len(self.log)
        self._scheduling.begin()

    def looked_up(self, request: VllmRequest, block_ids: Sequence[int], num_tokens: int) -> None:
        """Record a prefix-cache lookup. `block_ids`: blocks that hit, RELEASED outside the window."""
        self._scheduling.looked_up(self._by_name[request.request_id], block_ids, num_tokens)

    def allocating(self, request: VllmRequest) -> None:
        """Begin an allocation. The next calls of the pool are for this request."""
        self._scheduling.allocating(self._by_name[request.request_id])

    def allocated(self, block_ids: Sequence[int]) -> None:
        self._scheduling.allocated(block_ids)

    def shared(self, block_ids: Sequence[int]) -> None:
        self._scheduling.shared(block_ids)

    def cached(self, request: VllmRequest, logicals: Iterable[int]) -> None:
        """Record the hashes of logical blocks."""
        self._scheduling.cached(self._by_name[request.request_id], logicals)

    def end_allocation(self, request: VllmRequest, num_tokens: int, fits: bool) -> None:
        """End an allocation for `num_tokens` tokens. `fits`: whether it succeeded."""
        self._scheduling.end_allocation(self._by_name[request.request_id], num_tokens, fits)

    def freed_blocks(self, block_ids: Sequence[int]) -> None:
        """Record blocks freed in this order."""
        self._scheduling.freed_blocks(block_ids)

    def freeing(self, request: VllmRequest, is_finished: bool) -> None:
        """Begin to free all blocks of a request, which is preempted or has finished."""
        one = self._by_name.get(request.request_id)
        if one is None:
            raise WatchError(f"request {request.request_id} is freed but was never submitted")
        one.has_ended = is_finished
        if is_finished:
            self._take_samples(one)
            self._compute_early(one)
        self._scheduling.freeing = one

    def freed(self, request: VllmRequest, status: str) -> None:
        """Record that the blocks of a request were freed."""
        one, self._scheduling.freeing = self._scheduling.freeing, None
        assert one is not None
        if not one.has_ended:
            self._scheduling.preempted(one)
            return
        self._scheduling.ended(one)
        reason, stop = FINISHED.get(status, "abort"), getattr(request, "stop_reason", None)
        detail = status.removeprefix("FINISHED_").lower() if reason == "abort" else "" if stop is None else str(stop)
        self._emit(Finish(seq_id=one.seq_id, reason=reason, detail=detail))
        del self._by_name[request.request_id]

    def scheduled(self, num_tokens: dict[str, int]) -> None:
        """End the schedule. `num_tokens`: number of tokens by request, in batch order."""
        self._scheduling.end([(self._by_name[name], count) for name, count in num_tokens.items()])
        self._schedule_seconds = self._clock() - self._scheduled_at

    def computed(self) -> None:
        """Record that the step's tokens are computed. Its output is processed next."""
        self._updating_at = self._clock()
        self._forward_seconds = self._updating_at - self._scheduled_at - self._schedule_seconds
        batch, self._scheduling.batch = self._scheduling.batch, []
        for one, count in batch:
            self._unprocessed.append((one, one.table.num_computed, count))
            self._blocks.write(one.table, count)

    def updated(self) -> None:
        """Record that the step's output was processed."""
        self._take_samples(None)
        self._is_stepping = False
        if not self._entries and all(isinstance(op, Defer) for op in self._ops):
            self._ops.clear()  # an empty schedule that changed nothing
            return
        self._num_steps += 1
        self._append("step", self._clock() - self._updating_at)

    def _compute_early(self, one: RecordedRequest) -> None:
        """Record the computed tokens of a request that is aborted during the step, without a sample."""
        own = [pair for pair in self._scheduling.batch if pair[0] is one]
        self._scheduling.batch = [pair for pair in self._scheduling.batch if pair[0] is not one]
        for _, count in own:
            self._unprocessed.append((one, one.table.num_computed, count))
            self._blocks.write(one.table, count)
            self._take_samples(one)

    def _take_samples(self, last: RecordedRequest | None) -> None:
        """Record the samples of processed outputs. `last`: request after which to stop; None: record all."""
        while self._unprocessed:
            one, start, count = self._unprocessed.pop(0)
            token_ids = one.token_ids[start : start + count]
            new = [int(token_id) for token_id in one.request.all_token_ids[len(one.token_ids) :]]
            if len(new) > 1 or len(token_ids) != count:
                raise WatchError(f"request {one.name} has {len(new)} new tokens after a step of {count}")
            self._entries.append(
                BatchEntry(
                    seq_id=one.seq_id,
                    phase=phase_of(one, start, count),
                    start=start,
                    token_ids=token_ids,
                    context_len=start + count,
                    samples=bool(new),
                )
            )
            self._outputs += [self._output(one, token_id) for token_id in new]
            if one is last:
                return

    def _output(self, one: RecordedRequest, token_id: int) -> Output:
        one.token_ids.append(token_id)
        self._emit(Sample(seq_id=one.seq_id, token_id=token_id))
        token_bytes = self._token_bytes(token_id)
        if one.text is None:
            one.text = IncrementalDetokenizer()
        return Output(
            seq_id=one.seq_id,
            token_id=token_id,
            token_bytes=token_bytes,
            text=one.text.feed(token_bytes) + (one.text.finish() if one.has_ended else ""),
            logprob=0.0,
            top=[],
        )

    def _emit(self, op: Op) -> None:
        self._ops.append(op)

    def _append(self, kind: RecordKind, update_seconds: float = 0.0) -> None:
        is_step, at = kind == "step", self._clock() - self._began
        timing = Timing(at=at)
        if is_step:
            timing = Timing(
                at=at, schedule=self._schedule_seconds, forward=self._forward_seconds, sample=update_seconds
            )
        record = StepRecord(
            index=len(self.log),
            kind=kind,
            step=self._num_steps,
            batch=self._entries if is_step else [],
            ops=self._ops,
            outputs=self._outputs if is_step else [],
            timing=timing,
            memory=self._blocks.memory(),
        )
        self._ops = []
        self.log.append(record)
