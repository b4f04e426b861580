"""Fold of a run's records into the counts of its model. `names.py` describes the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from app.metrics import names
from app.metrics.live_clock import LiveClock
from app.metrics.residency import Residencies
from app.metrics.tally import Tally
from engine.trace.geometry import geometry
from engine.trace.operations import (
    Admit,
    Allocate,
    Arrive,
    Copy,
    Evict,
    Load,
    Lookup,
    LookupExternal,
    Medium,
    Preempt,
    Sample,
    Share,
    Store,
    SwapIn,
    SwapOut,
    TransferFailed,
    Verify,
)
from engine.trace.records import Header, Memory, StepRecord
from engine.trace.request_account import (
    Account,
    RequestRow,
    SequenceRow,
    time_in_queue,
    time_per_output_token,
    time_to_first_token,
)

SOURCE_OF: dict[Medium, str] = {"cpu": "host", "disk": "disk"}  # medium -> vLLM's label


class Fold:
    """Fold of a run. Only the appending thread calls `read`. Current figures may be read under the tally's lock.

    As in vLLM, metrics named after requests count sequences: each of the `n` samples of a request waits, finishes and
    has latencies. Their common prompt is computed once, and counted once in `prompt_tokens`. `request_params_n` has n.
    """

    def __init__(self, header: Header, tally: Tally, was_halted: Callable[[], bool] = lambda: False) -> None:
        """`was_halted` returns whether a person paused the run before the current record. Latencies exclude pauses."""
        self.model_name = header.model.name
        self.memory: Memory | None = None  # None: no record so far
        self._tally = tally
        self._block_size = geometry(header).block_size
        self._clock = LiveClock(was_halted)
        self._account = Account(self._clock, len(header.instances) > 1, model_name=self.model_name, drop_rows=True)
        self._missing: dict[int, int] = {}  # tokens that missed at the last lookup, by sequence to be admitted
        self._outside: dict[int, Counter[Medium]] = {}  # found blocks by tier at its last external lookup
        self._residencies = Residencies()
        self._num_generated = 0  # tokens of the current record
        self._handlers: dict[type, Callable[[Any], object]] = {
            **self._account.handlers,
            Lookup: self._lookup, LookupExternal: self._lookup_external, Admit: self._admit, Sample: self._sample,
            Load: self._load, Store: self._store,
            Allocate: self._allocate, Share: self._share, Evict: self._evict, Copy: self._copy, Preempt: self._preempt,
            Arrive: self._arrive, TransferFailed: self._transfer_failed,
            Verify: self._verify, SwapOut: self._swap_out, SwapIn: self._swap_in,
        }  # fmt: skip

    @property
    def num_running(self) -> int:
        """Number of running sequences."""
        return self._account.num_running

    @property
    def num_waiting(self) -> int:
        """Number of waiting sequences, including those that wait for blocks of another instance."""
        return self._account.num_waiting

    def read(self, record: StepRecord) -> list[RequestRow]:
        """Read the next record. Returns the requests whose last sequence ended in it.

        Raises:
            KeyError: the record refers to a sequence or block that is in no earlier record.
        """
        account, tally, memory = self._account, self._tally, record.memory
        with tally.lock:
            account.begin(record)
            self._num_generated = 0
            for op in record.ops:
                handle = self._handlers.get(type(op))
                if handle is not None:
                    handle(op)
            for row in account.ended:
                self._end(row)
            tally.add(names.GENERATION_TOKENS, self._num_generated)
            if record.kind == "step":
                tally.observe(names.ITERATION_TOKENS, sum(len(entry.token_ids) for entry in record.batch))
            if (work := record.work) is not None:
                tally.add(names.FLOPS, work.flops)
                tally.add(names.READ_BYTES, work.weight_bytes + work.kv_read_bytes)
                tally.add(names.WRITE_BYTES, work.kv_write_bytes)
            for request in account.completed:
                if request.longest_output:
                    tally.observe(names.MAX_GENERATION, request.longest_output)
                    tally.observe(names.REQUEST_N, request.n)
            self.memory = memory
        return account.completed

    def _lookup(self, op: Lookup) -> None:
        self._missing[op.seq_id] = op.num_tokens - op.num_hit_tokens
        self._outside.pop(op.seq_id, None)
        if not self._account.is_query(op):
            return
        self._tally.add(names.QUERIES, op.num_tokens)
        self._tally.add(names.HITS, op.num_hit_tokens)
        self._tally.add(names.CACHED_BY_SOURCE, op.num_hit_tokens, "device")
        if op.reason is not None:
            self._tally.add(names.MISSES, 1, op.reason)

    def _lookup_external(self, op: LookupExternal) -> None:
        """Count the tokens that missed the pool as external queries, as vLLM does, even if no store could have them."""
        self._outside[op.seq_id] = Counter(op.media)
        if self._account.rows[op.seq_id].request.scheduled is None:
            self._tally.add(names.EXTERNAL_QUERIES, self._missing.get(op.seq_id, 0))
            self._tally.add(names.EXTERNAL_LOOKUPS, 1, op.verdict)

    def _admit(self, op: Admit) -> None:
        row = self._account.rows[op.seq_id]
        is_first, recomputed = row.request.scheduled is None, row.recomputed_tokens
        self._account.admit(op)
        self._tally.add(names.RECOMPUTED_TOKENS, row.recomputed_tokens - recomputed)
        self._missing.pop(op.seq_id, None)
        outside = self._outside.pop(op.seq_id, Counter())
        if is_first and op.num_external_tokens:
            self._count_external_hits(outside, op.num_external_tokens)

    def _count_external_hits(self, outside: Counter[Medium], num_tokens: int) -> None:
        """Count tokens loaded at a first admission. Blocks that no later query attends to are not loaded."""
        tally, rest = self._tally, num_tokens
        tally.add(names.EXTERNAL_HITS, num_tokens)
        for medium, num_blocks in outside.items():
            tally.add(names.CACHED_BY_SOURCE, num_blocks * self._block_size, SOURCE_OF[medium])
            rest -= num_blocks * self._block_size
        tally.add(names.CACHED_BY_SOURCE, rest, "external_unspecified")

    def _sample(self, op: Sample) -> None:
        row = self._account.sample(op)
        if row.is_producer:
            return
        self._num_generated += 1
        if row.gap is not None:
            self._tally.observe(names.ITL, row.gap)
        elif row.num_output_tokens == 1 and row.first_token is not None:
            self._tally.observe(names.TTFT, time_to_first_token(row.request.arrival, row.first_token))
            if row.request.num_output_tokens == 1:
                self._count_prompt(row.request)

    def _count_prompt(self, request: RequestRow) -> None:
        """Count a request's prompt when its first token is sampled, as vLLM does."""
        tally, cached = self._tally, request.num_cached_tokens
        tally.add(names.PROMPT_TOKENS, request.num_prompt_tokens)
        tally.add(names.BY_SOURCE, request.num_prompt_tokens - cached, "local_compute")
        tally.add(names.BY_SOURCE, cached - request.num_external_tokens, "local_cache_hit")
        tally.add(names.BY_SOURCE, request.num_external_tokens, "external_kv_transfer")
        tally.add(names.CACHED_TOKENS, cached)
        tally.add(names.RECOMPUTED, int(cached + 1 == request.num_prompt_tokens))

    def _allocate(self, op: Allocate) -> None:
        self._residencies.allocate(op.block_id, self._clock.last)

    def _share(self, op: Share) -> None:
        self._residencies.hit(op.block_id, self._clock.last)

    def _evict(self, op: Evict) -> None:
        tally, residence = self._tally, self._residencies.evict(op.block_id, self._clock.last)
        tally.add(names.EVICTIONS)
        tally.observe(names.LIFETIME, residence.lifetime)
        tally.observe(names.IDLE, residence.idle)
        for gap in residence.reuse_gaps:
            tally.observe(names.REUSE_GAP, gap)

    def _preempt(self, op: Preempt) -> None:
        self._account.preempt(op)
        self._tally.add(names.NUM_PREEMPTIONS)
        self._tally.add(names.PREEMPTIONS, 1, op.reason, op.mode)
        self._tally.add(names.LOST_TOKENS, op.num_recompute_tokens)

    def _verify(self, op: Verify) -> None:
        self._tally.add(names.DRAFTS)
        self._tally.add(names.DRAFT_TOKENS, op.num_drafted)
        self._tally.add(names.ACCEPTED_TOKENS, op.num_accepted)

    def _load(self, op: Load) -> None:
        self._tally.add(names.EXTERNAL_BYTES, op.num_bytes, "load", op.medium)

    def _store(self, op: Store) -> None:
        self._tally.add(names.EXTERNAL_BYTES, op.num_bytes, "store", op.medium)

    def _copy(self, op: Copy) -> None:
        self._tally.add(names.COPIES)

    def _swap_out(self, op: SwapOut) -> None:
        self._tally.add(names.SWAPPED, op.num_bytes, "out")

    def _swap_in(self, op: SwapIn) -> None:
        self._tally.add(names.SWAPPED, op.num_bytes, "in")

    def _arrive(self, op: Arrive) -> None:
        self._account.arrive(op)
        self._tally.add(names.TRANSFERRED, op.num_bytes)
        self._tally.observe(names.TRANSFER_TIME, op.ended - op.began)

    def _transfer_failed(self, op: TransferFailed) -> None:
        self._account.transfer_failed(op)
        self._tally.add(names.FAILED_TRANSFERS, 1, op.reason)

    def _end(self, row: SequenceRow) -> None:
        """Count a sequence that has stopped, was aborted, or was lost with its instance."""
        self._missing.pop(row.seq_id, None)
        self._outside.pop(row.seq_id, None)
        if row.finish_reason != "dropped":  # a beam that is not returned
            self._tally.add(names.SUCCESS, 1, row.outcome)
        if row.finish_reason in ("stop", "length"):
            self._observe_latencies(row)

    def _observe_latencies(self, row: SequenceRow) -> None:
        """Observe the latencies of a request that was not aborted, as vLLM does."""
        tally, request, tokens = self._tally, row.request, row.num_output_tokens
        scheduled, first, last = request.scheduled, row.first_token, row.last_token
        tally.observe(names.E2E, self._clock.now - request.arrival)
        tally.observe(names.WAITED, request.queued - request.arrival)
        if scheduled is not None and first is not None and last is not None:
            tally.observe(names.QUEUE, time_in_queue(request.queued, scheduled))
            tally.observe(names.PREFILL, request.prefill_seconds(first))
            tally.observe(names.DECODE, last - first)
            tally.observe(names.INFERENCE, last - scheduled)
            if (tpot := time_per_output_token(first, last, tokens)) is not None:
                tally.observe(names.TPOT, tpot)
        tally.observe(names.REQUEST_PROMPT, request.num_prompt_tokens)
        tally.observe(names.REQUEST_GENERATION, tokens)
        tally.observe(names.REQUEST_COMPUTED, row.uncached_prompt_tokens)
        tally.observe(names.REQUEST_PREEMPTIONS, row.num_preemptions)
        tally.observe(names.REQUEST_MAX_TOKENS, request.max_tokens)
