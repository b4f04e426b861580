"""What one run did and took: sequence by sequence, in total, step by step. Pure: records in, numbers out.

Seconds are the engine's (`engine.trace.busy_time`): pauses between steps do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

import msgspec
from msgspec import Struct

from engine.trace.busy_time import BusyTime, step_seconds
from engine.trace.events import (
    Admit,
    Allocate,
    Arrive,
    Await,
    BlockOp,
    Copy,
    Evict,
    Finish,
    FinishReason,
    Fork,
    Free,
    Lookup,
    Lost,
    Op,
    Preempt,
    Release,
    Sample,
    Share,
    Submit,
    SwapIn,
    SwapOut,
    TransferFailed,
)
from engine.trace.geometry import TraceStateError, geometry, group_index
from engine.trace.limits import UNITS_PER_SLOT, Budget, TooMuchError
from engine.trace.parts import RequestParts
from engine.trace.records import Header, StepRecord

Status = Literal["waiting", "receiving", "running", "preempted", "finished"]


class Token(Struct, frozen=True, kw_only=True):
    """A token that was chosen, and where."""

    token_id: int
    token_bytes: bytes
    logprob: float
    record: int
    step: int
    chosen: bool = False  # settled from outside, where the sampler took another


class SequenceFigures(Struct, kw_only=True):
    """What one sequence did and took in one run; of a request that went over several instances, all its parts."""

    seq_id: int  # of the last part
    parts: list[int]  # sequences
    prompt_token_ids: list[int]
    tokens: list[Token] = []  # in order; a fork's begin with those of its parent
    status: Status = "waiting"
    finish_reason: FinishReason | None = None
    submitted_in: int  # record; of the first part
    num_cached_tokens: int = 0  # at its first admission: in the pool or outside it
    received_bytes: int = 0  # of what another instance computed
    num_preemptions: int = 0
    num_steps: int = 0  # that computed something of it
    computed_tokens: int = 0  # in these: more than it has where something was computed again
    blocks: int = 0  # held now
    blocks_peak: int = 0
    queue: float | None = None  # engine seconds from the submission to the beginning of the step that admitted it first
    ttft: float | None = None  # engine seconds from the submission to the end of the step that chose the first token
    ttft_steps: int | None = None
    seconds: float | None = None  # to the end of the step that chose the last one so far

    @property
    def tpot(self) -> float | None:
        """Time per output token: (last token - first token) / (tokens - 1); None of fewer than two."""
        if self.seconds is None or self.ttft is None or len(self.tokens) < 2:
            return None
        return (self.seconds - self.ttft) / (len(self.tokens) - 1)


class Totals(Struct, kw_only=True):
    """What one run did and took."""

    num_records: int = 0
    num_steps: int = 0
    seconds: float = 0.0  # of the engine: all of its steps
    requests: int = 0
    unfinished: int = 0  # sequences
    output_tokens: int = 0
    computed_tokens: int = 0
    asked_tokens: int = 0  # of which the prefix cache was asked at first admissions
    hit_tokens: int = 0
    preemptions: int = 0
    evictions: int = 0
    copies: int = 0
    swapped_bytes: int = 0  # both ways
    received_bytes: int = 0  # from instance to instance
    blocks_peak: int = 0  # held, within a step too
    bytes_peak: int = 0
    wasted_peak: int = 0  # bytes held without content after a record
    flops: int = 0
    bytes_moved: int = 0  # weights and KV, read and written; derived, as flops are
    operations: dict[str, int] = {}  # by type


class Point(Struct, frozen=True, kw_only=True):
    """The pool in a step, and the step's time."""

    record: int
    step: int
    blocks_held: int  # at most, within the step
    bytes_held: int
    seconds: float


class RunFigures(Struct, kw_only=True):
    """One run."""

    totals: Totals
    series: list[Point]


def held_at_most(record: StepRecord, held: int, size: Callable[[int], int]) -> int:
    """The most that sequences held at once in a record that ends with `held`, where block i counts `size(i)`.

    Its operations are taken back one by one: a sequence that ends gives its blocks back in the record of its last step,
    so the figures after it miss them.
    """
    most = held
    for op in reversed(record.ops):
        if isinstance(op, Free | Release) and op.to is not None:
            held += size(op.block_id)
        elif isinstance(op, Allocate) or (isinstance(op, Share) and op.revived):
            held -= size(op.block_id)
        most = max(most, held)
    return most


@dataclass(slots=True)
class _Marks:
    """Readings of the clock that a sequence's times lie between."""

    came: float
    admitted: float | None = None  # when the step began that admitted it first
    first: float | None = None  # tokens
    last: float | None = None


class RunReading:
    """One log, read record by record from its first. Raises TraceStateError for a header that no run can have."""

    def __init__(self, header: Header) -> None:
        self._members: dict[tuple[str, int], list[SequenceFigures]] = {}
        self._by_id: dict[int, SequenceFigures] = {}
        self._request_of: dict[int, tuple[str, int]] = {}
        self._named: Counter[str] = Counter()
        self._operations: Counter[str] = Counter()
        # when the record that is read began, and ended: of the clock, or on one instance of the engine
        self._before = self._now = 0.0
        self._began: dict[int, int] = {}  # steps of the engine when it was submitted
        self._parts = RequestParts(header)
        self._busy = BusyTime()  # of several instances, which compute at once
        self._marks: dict[int, _Marks] = {}  # of each SequenceFigures, by its id()
        self._held: dict[int, Counter[int]] = {}  # by instance: blocks that its sequences hold
        self._totals = Totals()
        self._series: list[Point] = []
        self._block_size, self._groups, *_ = geometry(header)
        self._budget = Budget()

    def _block_bytes(self, block_id: int) -> int:
        return self._block_size * self._groups[group_index(self._groups, block_id)].kv_bytes_per_token

    @property
    def members(self) -> dict[tuple[str, int], list[SequenceFigures]]:
        """The sequences of each request, by its id and number, with their times as far as the log was read."""
        engine_time: Callable[[float], float] = float
        if self._parts.is_shared:
            engine_time, self._totals.seconds = self._busy.before, self._busy.total
        for sequence in (one for members in self._members.values() for one in members):
            marks = self._marks[id(sequence)]
            came = engine_time(marks.came)
            if marks.admitted is not None:
                sequence.queue = max(0.0, engine_time(marks.admitted) - came)
            if marks.first is not None and marks.last is not None:
                sequence.ttft, sequence.seconds = engine_time(marks.first) - came, engine_time(marks.last) - came
        return self._members

    def figures(self) -> RunFigures:
        """What the run took."""
        self._totals.operations = dict(sorted(self._operations.items()))
        everyone = [sequence for members in self.members.values() for sequence in members]
        self._totals.unfinished = sum(1 for sequence in everyone if sequence.status != "finished")
        return RunFigures(totals=self._totals, series=self._series)

    def read(self, record: StepRecord, num_bytes: int) -> None:
        """Read the next record, of `num_bytes` bytes.

        Raises:
            TraceStateError: it is about a sequence, a block or a token that the log does not have, or copies more than
                a reader keeps.
        """
        self._budget.read(num_bytes)
        try:
            self._read(record)
        except TooMuchError as error:
            raise TraceStateError(f"record {record.index}: {error}") from error
        except KeyError as error:
            raise TraceStateError(
                f"record {record.index} is about a sequence or token that the log does not have: {error}"
            ) from error

    def _read(self, record: StepRecord) -> None:
        totals, memory = self._totals, record.memory
        seconds = step_seconds(record.timing)
        if self._parts.is_shared:
            self._busy.read(record)
            self._now = record.timing.at
            self._before = self._now - seconds
        else:
            self._before = totals.seconds
            self._now = totals.seconds = totals.seconds + seconds
        totals.num_records += 1
        totals.num_steps = record.step
        outputs = {(o.seq_id, o.token_id): o for o in record.outputs}
        for entry in record.batch:
            sequence = self._by_id[entry.seq_id]
            sequence.num_steps += 1
            sequence.computed_tokens += len(entry.token_ids)
            totals.computed_tokens += len(entry.token_ids)
        for op, after in zip_longest(record.ops, record.ops[1:]):
            self._operations[str(op.__struct_config__.tag)] += 1
            before, lost = self._parts.read(op, record.instance)
            for seq_id in lost:
                self._by_id[seq_id].status, self._by_id[seq_id].finish_reason = "finished", "abort"
            if before is not None and isinstance(op, Submit):
                self._go_on(op, before)
            elif isinstance(op, Sample) and self._parts.is_producer(op.seq_id):
                pass  # where the request goes on, that token is sampled anew
            elif isinstance(op, Sample):
                output = outputs[op.seq_id, op.token_id]
                token = Token(
                    token_id=op.token_id,
                    token_bytes=output.token_bytes,
                    logprob=output.logprob,
                    record=record.index,
                    step=record.step,
                    chosen=op.sampled_token_id is not None,
                )
                self._sampled(op.seq_id, token)
            elif not (isinstance(op, Allocate) and isinstance(after, Copy)):  # a copy replaces a block of the table
                self._apply(op, record)
        held = held_at_most(record, memory.blocks_held, lambda _: 1)
        bytes_held = held_at_most(record, memory.bytes_held, self._block_bytes)
        totals.blocks_peak = max(totals.blocks_peak, held)
        totals.bytes_peak = max(totals.bytes_peak, bytes_held)
        totals.wasted_peak = max(totals.wasted_peak, memory.bytes_held - memory.bytes_used)
        if record.work is not None:
            work = record.work
            totals.flops += work.flops
            totals.bytes_moved += work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes
        if record.kind == "step":
            self._series.append(
                Point(
                    record=record.index,
                    step=record.step,
                    bytes_held=bytes_held,
                    blocks_held=held,
                    seconds=seconds,
                )
            )

    def _sampled(self, seq_id: int, token: Token) -> None:
        sequence = self._by_id[seq_id]
        sequence.tokens.append(token)
        self._totals.output_tokens += 1
        steps, marks = self._began[seq_id], self._marks[id(sequence)]
        marks.last = self._now
        if marks.first is None:
            marks.first, sequence.ttft_steps = self._now, token.step - steps

    def _apply(self, op: Op, record: StepRecord) -> None:
        totals = self._totals
        if isinstance(op, BlockOp):
            self._hold(op.seq_id, op.holds, record.instance)
        if isinstance(op, SwapOut | SwapIn):
            totals.swapped_bytes += op.num_bytes
        match op:
            case Submit():
                request_id = self._parts.request_id(op)
                request = (request_id, self._named[request_id])
                self._named[request_id] += 1
                totals.requests += 1
                self._enter(
                    request,
                    SequenceFigures(
                        seq_id=op.seq_id,
                        parts=[op.seq_id],
                        prompt_token_ids=op.prompt_token_ids,
                        submitted_in=record.index,
                    ),
                    record.step,
                    _Marks(self._now),
                )
            case Fork():
                parent = self._by_id[op.parent_seq_id]
                self._budget.spend(len(parent.prompt_token_ids) + UNITS_PER_SLOT * len(parent.tokens))
                child = msgspec.structs.replace(
                    parent,
                    seq_id=op.seq_id,
                    parts=[op.seq_id],
                    tokens=list(parent.tokens),
                    submitted_in=record.index,
                )
                child.num_steps = child.computed_tokens = child.num_preemptions = 0
                child.blocks_peak = child.blocks
                steps, marks = self._began[op.parent_seq_id], self._marks[id(parent)]
                self._enter(self._request_of[op.parent_seq_id], child, steps, replace(marks))
            case Lookup() if op.verdict in ("hit", "miss", "too_short"):
                if self._by_id[op.seq_id].status == "waiting":
                    totals.asked_tokens += op.num_tokens
                    totals.hit_tokens += op.num_hit_tokens
            case Admit():
                sequence = self._by_id[op.seq_id]
                marks = self._marks[id(sequence)]
                if not op.resumed and marks.admitted is None:
                    sequence.num_cached_tokens = op.num_cached_tokens + op.num_external_tokens
                if marks.admitted is None:
                    marks.admitted = self._before
                sequence.status = "running"
            case Lost():
                for seq_id, blocks in self._held.pop(record.instance, Counter[int]()).items():
                    self._by_id[seq_id].blocks -= blocks
            case Await():
                self._by_id[op.seq_id].status = "receiving"
            case Arrive():
                self._by_id[op.seq_id].status = "waiting"
                self._by_id[op.seq_id].received_bytes += op.num_bytes
                totals.received_bytes += op.num_bytes
            case TransferFailed():
                self._by_id[op.seq_id].status = "waiting"
            case Copy():
                totals.copies += 1
            case Evict():
                totals.evictions += 1
            case Preempt():
                self._by_id[op.seq_id].status = "preempted"
                self._by_id[op.seq_id].num_preemptions += 1
                totals.preemptions += 1
            case Finish():
                self._by_id[op.seq_id].status = "finished"
                self._by_id[op.seq_id].finish_reason = op.reason
            case _:
                pass

    def _enter(self, request: tuple[str, int], sequence: SequenceFigures, step: int, marks: _Marks) -> None:
        self._members.setdefault(request, []).append(sequence)
        self._by_id[sequence.seq_id] = sequence
        self._request_of[sequence.seq_id] = request
        self._began[sequence.seq_id], self._marks[id(sequence)] = step, marks

    def _go_on(self, op: Submit, before: int) -> None:
        """The next part of a request: the same figures, from now on about this sequence."""
        sequence = self._by_id[op.seq_id] = self._by_id[before]
        self._request_of[op.seq_id], self._began[op.seq_id] = self._request_of[before], self._began[before]
        sequence.parts.append(op.seq_id)
        sequence.seq_id, sequence.status, sequence.finish_reason = op.seq_id, "waiting", None

    def _hold(self, seq_id: int, blocks: int, instance: int) -> None:
        sequence = self._by_id[seq_id]
        self._held.setdefault(instance, Counter())[seq_id] += blocks
        sequence.blocks += blocks
        sequence.blocks_peak = max(sequence.blocks_peak, sequence.blocks)
