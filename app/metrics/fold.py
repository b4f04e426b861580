"""The fold: one run's records, in order, into the counts of its model. What comes of it is in `names.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.metrics import names
from app.metrics.requests import Preempted, RequestTimes, SequenceTimes
from app.metrics.residency import Residencies
from app.metrics.tally import Tally
from engine.trace.busy_time import moved_between, step_seconds
from engine.trace.events import (
    Adjust,
    Admit,
    Allocate,
    Arrive,
    Copy,
    Evict,
    Finish,
    Fork,
    Load,
    Lookup,
    LookupExternal,
    Medium,
    Op,
    Preempt,
    Sample,
    Share,
    Store,
    Submit,
    SwapIn,
    SwapOut,
    TransferFailed,
)
from engine.trace.geometry import geometry
from engine.trace.parts import RequestParts
from engine.trace.records import Header, Memory, StepRecord

SOURCE_OF: dict[Medium, str] = {"cpu": "host", "disk": "disk"}  # vLLM's words


class Fold:
    """One run. `take` belongs to the thread that appends; the figures of now may be read under the tally's lock.

    As in vLLM a sequence is what is counted where the names say request: each of `n` samples finishes, waits and is
    timed for itself. Their prompt is computed once, so `prompt_tokens` has it once; the n is in `request_params_n`.
    """

    def __init__(self, header: Header, tally: Tally, was_halted: Callable[[], bool] = lambda: False) -> None:
        """`was_halted`: whether a person kept the run from going on before the record that is read; that time belongs
        to no latency.
        """
        self._was_halted = was_halted
        self._halted = 0.0  # seconds in all
        self._last = 0.0  # when something was done last, of the clock
        self.model_name = header.model.name
        self.num_running = 0
        self.num_waiting = 0
        self.memory: Memory | None = None  # None: nothing has come in yet
        self._tally = tally
        self._block_size = geometry(header).block_size
        self._sequences: dict[int, SequenceTimes] = {}  # unfinished
        self._parts = RequestParts(header)
        self._before: dict[int, SequenceTimes] = {}  # that were gone on with elsewhere, or will be
        self._residencies = Residencies()
        self._ended: list[RequestTimes] = []
        self._num_generated = 0  # tokens of the record that is read
        self._at = self._began = 0.0  # of the record that is read, less what was halted: its end, where its step began
        self._take: dict[type, Callable[[Any], None]] = {
            Submit: self._submit, Lookup: self._lookup, LookupExternal: self._lookup_external, Admit: self._admit,
            Fork: self._fork, Sample: self._sample, Load: self._load, Store: self._store,
            Allocate: self._allocate, Share: self._share, Evict: self._evict, Copy: self._copy, Preempt: self._preempt,
            Arrive: self._arrive, TransferFailed: self._transfer_failed,
            SwapOut: self._swap_out, SwapIn: self._swap_in, Adjust: self._adjust, Finish: self._finish,
        }  # fmt: skip

    def take(self, record: StepRecord) -> list[RequestTimes]:
        """The next record; returns the requests whose last sequence ended in it.

        Raises:
            KeyError: it is about a sequence or block that no record before it has.
        """
        with self._tally.lock:
            self._skip_halt(record)
            self._at = record.timing.at - self._halted
            self._began = self._at - step_seconds(record.timing)
            self._num_generated = 0
            for op in record.ops:
                if self._parts.is_shared and self._read_part(op, record.instance):
                    continue
                take = self._take.get(type(op))
                if take is not None:
                    take(op)
            self._tally.add(names.GENERATION_TOKENS, self._num_generated)
            if record.kind == "step":
                self._tally.observe(names.ITERATION_TOKENS, sum(len(entry.token_ids) for entry in record.batch))
            if (work := record.work) is not None:
                self._tally.add(names.FLOPS, work.flops)
                self._tally.add(names.READ_BYTES, work.weight_bytes + work.kv_read_bytes)
                self._tally.add(names.WRITE_BYTES, work.kv_write_bytes)
            self.memory = record.memory
        ended, self._ended = self._ended, []
        return ended

    def _skip_halt(self, record: StepRecord) -> None:
        """Leave out the time before a record in which nothing was done, if a person kept the run from going on."""
        at = record.timing.at
        began, ended = moved_between(record)
        done = [(began, ended)] if began < ended else []
        for began, ended in (*done, (at - step_seconds(record.timing), at)):
            if self._was_halted() and began > self._last:
                self._halted += began - self._last
            self._last = max(self._last, ended)

    def _read_part(self, op: Op, instance: int) -> bool:
        """Of a request that several instances have. Whether that is all there is to the operation."""
        before, lost = self._parts.read(op, instance)
        for seq_id in lost:
            self._lose(seq_id)
        if isinstance(op, Submit) and before in self._before:
            self._go_on(op, self._before.pop(before))
            return True
        return False

    def _submit(self, op: Submit) -> None:
        request = RequestTimes(
            request_id=self._parts.request_id(op),
            model_name=self.model_name,
            arrival=self._at - op.waited,
            queued=self._at,
            num_prompt_tokens=len(op.prompt_token_ids),
            max_tokens=op.max_tokens,
            sampling=op.sampling,
        )
        self.num_waiting += 1
        self._sequences[op.seq_id] = SequenceTimes(request, num_computed_tokens=request.num_prompt_tokens)

    def _lookup(self, op: Lookup) -> None:
        sequence = self._sequences[op.seq_id]
        sequence.num_missing_tokens, sequence.found_outside = op.num_tokens - op.num_hit_tokens, Counter()
        if sequence.scheduled is not None:  # after a preemption, which vLLM leaves out too
            return
        if op.verdict in ("hit", "miss", "too_short"):
            self._tally.add(names.QUERIES, op.num_tokens)
            self._tally.add(names.HITS, op.num_hit_tokens)
            self._tally.add(names.CACHED_BY_SOURCE, op.num_hit_tokens, "device")
        if op.reason is not None:
            self._tally.add(names.MISSES, 1, op.reason)

    def _lookup_external(self, op: LookupExternal) -> None:
        """Queries are what the pool had not, as vLLM counts them: also what no store could have."""
        sequence = self._sequences[op.seq_id]
        sequence.found_outside = Counter(op.media)
        if sequence.scheduled is None:
            self._tally.add(names.EXTERNAL_QUERIES, sequence.num_missing_tokens)
            self._tally.add(names.EXTERNAL_LOOKUPS, 1, op.verdict)

    def _hits_outside(self, sequence: SequenceTimes, num_tokens: int) -> None:
        """Loaded at a first admission. Where no later query sees a block, nothing is loaded for its tokens."""
        tally, rest = self._tally, num_tokens
        tally.add(names.EXTERNAL_HITS, num_tokens)
        for medium, num_blocks in sequence.found_outside.items():
            tally.add(names.CACHED_BY_SOURCE, num_blocks * self._block_size, SOURCE_OF[medium])
            rest -= num_blocks * self._block_size
        tally.add(names.CACHED_BY_SOURCE, rest, "external_unspecified")

    def _load(self, op: Load) -> None:
        self._tally.add(names.EXTERNAL_BYTES, op.num_bytes, "load", op.medium)

    def _store(self, op: Store) -> None:
        self._tally.add(names.EXTERNAL_BYTES, op.num_bytes, "store", op.medium)

    def _admit(self, op: Admit) -> None:
        sequence = self._sequences[op.seq_id]
        self._moves(sequence, runs=True)
        if sequence.scheduled is None and sequence.request.scheduled is not None:
            sequence.scheduled = sequence.request.scheduled  # a later part: what it has was computed for it, not found
        elif sequence.scheduled is None:
            sequence.scheduled = sequence.request.scheduled = self._began
            cached = op.num_cached_tokens + op.num_external_tokens
            sequence.request.num_cached_tokens = cached
            sequence.request.num_external_tokens = op.num_external_tokens
            sequence.num_computed_tokens -= cached
            if op.num_external_tokens:
                self._hits_outside(sequence, op.num_external_tokens)

    def _fork(self, op: Fork) -> None:
        parent = self._sequences[op.parent_seq_id]
        parent.request.num_sequences += 1
        parent.request.num_alive += 1
        self.num_running += 1
        self._sequences[op.seq_id] = replace(parent, runs=True, num_computed_tokens=0, num_preemptions=0)

    def _sample(self, op: Sample) -> None:
        sequence, tally = self._sequences[op.seq_id], self._tally
        request = sequence.request
        if self._parts.is_producer(op.seq_id):  # nobody is given that token
            request.prefilled = self._at
            return
        self._num_generated += 1
        if request.first_token is None:
            self._prefilled(request)
        if sequence.last_token is None:
            sequence.first_token = self._at
            tally.observe(names.TTFT, self._at - request.arrival)
        else:
            tally.observe(names.ITL, self._at - sequence.last_token)
        sequence.last_token = request.last_token = self._at
        sequence.num_output_tokens += 1
        request.num_output_tokens += 1

    def _prefilled(self, request: RequestTimes) -> None:
        """Its first token is there: its prompt counts now, as vLLM's does."""
        tally, cached = self._tally, request.num_cached_tokens
        request.first_token = self._at
        tally.add(names.PROMPT_TOKENS, request.num_prompt_tokens)
        tally.add(names.BY_SOURCE, request.num_prompt_tokens - cached, "local_compute")
        tally.add(names.BY_SOURCE, cached - request.num_external_tokens, "local_cache_hit")
        tally.add(names.BY_SOURCE, request.num_external_tokens, "external_kv_transfer")
        tally.add(names.CACHED_TOKENS, cached)
        tally.add(names.RECOMPUTED, int(cached + 1 == request.num_prompt_tokens))

    def _allocate(self, op: Allocate) -> None:
        self._residencies.allocated(op.block_id, self._last)

    def _share(self, op: Share) -> None:
        self._residencies.hit(op.block_id, self._last)

    def _evict(self, op: Evict) -> None:
        tally, residence = self._tally, self._residencies.evicted(op.block_id, self._last)
        tally.add(names.EVICTIONS)
        tally.observe(names.LIFETIME, residence.lifetime)
        tally.observe(names.IDLE, residence.idle)
        for gap in residence.reuse_gaps:
            tally.observe(names.REUSE_GAP, gap)

    def _copy(self, op: Copy) -> None:
        self._tally.add(names.COPIES)

    def _swap_out(self, op: SwapOut) -> None:
        self._tally.add(names.SWAPPED, op.num_bytes, "out")

    def _swap_in(self, op: SwapIn) -> None:
        self._tally.add(names.SWAPPED, op.num_bytes, "in")

    def _preempt(self, op: Preempt) -> None:
        sequence, tally = self._sequences[op.seq_id], self._tally
        self._moves(sequence, runs=False)
        sequence.num_preemptions += 1
        sequence.request.preemptions.append(Preempted(self._at, op.reason, op.mode))
        tally.add(names.NUM_PREEMPTIONS)
        tally.add(names.PREEMPTIONS, 1, op.reason, op.mode)
        tally.add(names.LOST_TOKENS, op.num_recompute_tokens)

    def _adjust(self, op: Adjust) -> None:
        for seq_id in op.seq_ids:
            self._sequences[seq_id].request.max_tokens = op.max_tokens

    def _go_on(self, op: Submit, before: SequenceTimes) -> None:
        """The next part of a request, which began with its first one."""
        self.num_waiting += 1
        later = SequenceTimes(before.request, num_computed_tokens=before.num_computed_tokens)
        later.num_preemptions = before.num_preemptions
        self._sequences[op.seq_id] = later

    def _lose(self, seq_id: int) -> None:
        """Its instance has ended; another part may follow."""
        self.num_running -= self._sequences[seq_id].runs
        self.num_waiting -= not self._sequences[seq_id].runs
        sequence = self._before[seq_id] = self._sequences.pop(seq_id)
        if seq_id in self._parts.left_open:
            return
        del self._before[seq_id]
        sequence.request.num_alive -= 1
        sequence.request.reasons.append("error")
        self._tally.add(names.SUCCESS, 1, "error")
        if not sequence.request.num_alive:
            self._over(sequence.request)

    def _arrive(self, op: Arrive) -> None:
        self._tally.add(names.TRANSFERRED, op.num_bytes)
        self._tally.observe(names.TRANSFER_TIME, op.ended - op.began)

    def _transfer_failed(self, op: TransferFailed) -> None:
        self._tally.add(names.FAILED_TRANSFERS, 1, op.reason)

    def _finish(self, op: Finish) -> None:
        sequence = self._sequences.pop(op.seq_id)
        request = sequence.request
        if self._parts.is_producer(op.seq_id) and op.reason != "abort":
            self.num_running -= sequence.runs
            self.num_waiting -= not sequence.runs
            self._before[op.seq_id] = sequence
            return
        request.num_alive -= 1
        self.num_running -= sequence.runs
        self.num_waiting -= not sequence.runs
        if op.reason != "dropped":  # a beam that others beat is no output
            failed = op.reason == "abort" and op.detail  # nobody asked for it
            request.reasons.append("error" if failed else op.reason)
            self._tally.add(names.SUCCESS, 1, request.reasons[-1])
        if op.reason in ("stop", "length"):
            self._completed(sequence)
        if not request.num_alive:
            self._over(request)

    def _moves(self, sequence: SequenceTimes, runs: bool) -> None:
        """From waiting to running, or back."""
        sequence.runs = runs
        self.num_running += 1 if runs else -1
        self.num_waiting += -1 if runs else 1

    def _completed(self, sequence: SequenceTimes) -> None:
        """It came to its own end. Of an aborted one there is no latency to be compared, and vLLM observes none."""
        tally, request, tokens = self._tally, sequence.request, sequence.num_output_tokens
        scheduled, first, last = sequence.scheduled, sequence.first_token, sequence.last_token
        tally.observe(names.E2E, self._at - request.arrival)
        tally.observe(names.WAITED, request.queued - request.arrival)
        if scheduled is not None and first is not None and last is not None:
            tally.observe(names.QUEUE, max(0.0, scheduled - request.queued))
            tally.observe(names.PREFILL, (request.prefilled or first) - scheduled)
            tally.observe(names.DECODE, last - first)
            tally.observe(names.INFERENCE, last - scheduled)
            if tokens > 1:
                tally.observe(names.TPOT, (last - first) / (tokens - 1))
        tally.observe(names.REQUEST_PROMPT, request.num_prompt_tokens)
        tally.observe(names.REQUEST_GENERATION, tokens)
        tally.observe(names.REQUEST_COMPUTED, sequence.num_computed_tokens)
        tally.observe(names.REQUEST_PREEMPTIONS, sequence.num_preemptions)
        tally.observe(names.REQUEST_MAX_TOKENS, request.max_tokens)
        request.longest_output = max(request.longest_output, tokens)

    def _over(self, request: RequestTimes) -> None:
        request.ended = self._at
        if request.longest_output:
            self._tally.observe(names.MAX_GENERATION, request.longest_output)
            self._tally.observe(names.REQUEST_N, request.n)
        self._ended.append(request)
