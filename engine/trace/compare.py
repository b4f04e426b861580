"""Two runs side by side: where they part, and what each of them took. Pure: two logs in, numbers out.

The records of both are walked in order until an operation differs: the first difference. Tokens are aligned by request
and place: a sequence of one run belongs to that of the other with the same request id (the first of that name to the
first, the second to the second), as the same of its request's sequences (the one that was submitted, its first fork …).
Position p of one stands beside position p of the other.

Seconds are the engine's: the sum of its steps' times. A run that waits for somebody to press a button takes no time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, Literal

import msgspec
from msgspec import Struct

from engine.trace.events import (
    Admit,
    Allocate,
    Copy,
    Evict,
    Finish,
    FinishReason,
    Fork,
    Free,
    Lookup,
    Op,
    Preempt,
    Release,
    Sample,
    Share,
    Submit,
    SwapIn,
    SwapOut,
)
from engine.trace.log import TraceReader
from engine.trace.records import StepRecord, Timing
from engine.trace.state import group_index, initial_state

TOLERANCE = 1e-4  # log probabilities and scores: float32 sums in another order differ by about 1e-6
Status = Literal["waiting", "running", "preempted", "finished"]
Setting = str | int | float | bool | None


class Token(Struct, frozen=True, kw_only=True):
    """A token that was chosen, and where."""

    token_id: int
    token_bytes: bytes
    logprob: float
    record: int
    step: int
    chosen: bool = False  # settled from outside, where the sampler took another


class SequenceFigures(Struct, kw_only=True):
    """What one sequence did and took in one run."""

    seq_id: int
    prompt_token_ids: list[int]
    tokens: list[Token] = []  # chosen so far, in order; a fork's begin with those of its parent
    status: Status = "waiting"
    finish_reason: FinishReason | None = None
    submitted_in: int  # record
    num_cached_tokens: int = 0  # at its first admission
    num_preemptions: int = 0
    num_steps: int = 0  # that computed something of it
    computed_tokens: int = 0  # in these: more than it has where something was computed again
    blocks: int = 0  # held now
    blocks_peak: int = 0
    ttft: float | None = None  # engine seconds from the submission to the end of the step that chose the first token
    ttft_steps: int | None = None
    seconds: float | None = None  # to the end of the step that chose the last one so far


class Totals(Struct, kw_only=True):
    """What one run did and took."""

    num_records: int = 0
    num_steps: int = 0
    seconds: float = 0.0  # all steps of the engine
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


class OpDifference(Struct, frozen=True, kw_only=True):
    """The first operation that is not the same: at one place in both logs. None: there is none at that place."""

    record: int
    op: int
    a: Op | None
    b: Op | None
    kind_a: str | None  # of the record; None: the log ends before it
    kind_b: str | None
    step_a: int | None
    step_b: int | None


class TokenDifference(Struct, frozen=True, kw_only=True):
    """The first token of a sequence that is not the same. None: the run has ended the sequence before."""

    request_id: str
    number: int
    member: int
    position: int  # in the sequence
    a: Token | None
    b: Token | None


class SequencePair(Struct, frozen=True, kw_only=True):
    """A sequence in both runs; None: it is in one only."""

    request_id: str
    number: int  # which request of that name, the first 0
    member: int  # which of its sequences
    a: SequenceFigures | None
    b: SequenceFigures | None
    same_prompt: bool
    equal_tokens: int  # chosen tokens, from the first on, that are the same in both
    difference: TokenDifference | None  # None: there is none, as far as both have come


class SettingDifference(Struct, frozen=True, kw_only=True):
    """A setting of the engine that is not the same."""

    name: str
    a: Setting
    b: Setting


class Comparison(Struct, frozen=True, kw_only=True):
    """Two runs side by side."""

    same_model: bool
    same_machine: bool  # or else seconds tell of the machines
    settings: list[SettingDifference]
    first_op: OpDifference | None
    first_token: TokenDifference | None
    sequences: list[SequencePair]
    a: RunFigures
    b: RunFigures


def compare(a: TraceReader, b: TraceReader) -> Comparison:
    """Compare two logs as they are now; a log that grows is compared up to its present end.

    Raises:
        TraceFormatError: a damaged record.
    """
    one, two = _Reading(a), _Reading(b)
    ends = len(a), len(b)
    first_op = None
    for index in range(max(ends)):
        records = [log.record(index) if index < end else None for log, end in zip((a, b), ends, strict=True)]
        for record, reading in zip(records, (one, two), strict=True):
            if record is not None:
                reading.read(record)
        if first_op is None:
            first_op = _op_difference(index, *records)
    pairs = list(_pairs(one.members, two.members))
    parted = [p.difference for p in pairs if p.difference]
    settings = {**a.header.engine, **b.header.engine}
    return Comparison(
        same_model=a.header.model == b.header.model,
        same_machine=_machine(a) == _machine(b),
        settings=[
            SettingDifference(name=name, a=a.header.engine.get(name), b=b.header.engine.get(name))
            for name in settings
            if a.header.engine.get(name) != b.header.engine.get(name)
        ],
        first_op=first_op,
        first_token=min(parted, key=lambda d: min(t.record for t in (d.a, d.b) if t), default=None),
        sequences=pairs,
        a=one.figures(),
        b=two.figures(),
    )


def step_seconds(timing: Timing) -> float:
    """The engine's time for a record: what its parts took."""
    return timing.schedule + timing.prepare + timing.forward + timing.sample


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


def same(a: Any, b: Any) -> bool:
    """Equal, real numbers up to TOLERANCE."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= TOLERANCE
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, msgspec.Struct) and type(a) is type(b):
        return a == b or all(same(getattr(a, name), getattr(b, name)) for name in a.__struct_fields__)
    return bool(a == b)


def first_op_that_differs(a: list[Op], b: list[Op]) -> int | None:
    """Its place in the two lists; None when they are the same."""
    return next((i for i, (x, y) in enumerate(zip_longest(a, b)) if not same(x, y)), None)


def _op_difference(index: int, a: StepRecord | None, b: StepRecord | None) -> OpDifference | None:
    ops = [record.ops if record else [] for record in (a, b)]
    place = first_op_that_differs(*ops)
    if place is None:
        if a is not None and b is not None:
            return None
        place = 0  # a record without operations where the other log has ended
    found = [those[place] if place < len(those) else None for those in ops]
    return OpDifference(
        record=index,
        op=place,
        a=found[0],
        b=found[1],
        kind_a=a.kind if a else None,
        kind_b=b.kind if b else None,
        step_a=a.step if a else None,
        step_b=b.step if b else None,
    )


class _Reading:
    """One log, record by record."""

    def __init__(self, log: TraceReader) -> None:
        self.members: dict[tuple[str, int], list[SequenceFigures]] = {}  # by request id and number
        self._by_id: dict[int, SequenceFigures] = {}
        self._request_of: dict[int, tuple[str, int]] = {}
        self._named: Counter[str] = Counter()
        self._operations: Counter[str] = Counter()
        self._began: dict[int, tuple[float, int]] = {}  # seconds and steps of the engine when it was submitted
        self._totals = Totals()
        self._series: list[Point] = []
        self._empty = initial_state(log.header)

    def _block_bytes(self, block_id: int) -> int:
        groups = self._empty.block_groups
        return self._empty.block_size * groups[group_index(groups, block_id)].kv_bytes_per_token

    def figures(self) -> RunFigures:
        """What the run took."""
        self._totals.operations = dict(sorted(self._operations.items()))
        self._totals.unfinished = sum(1 for s in self._by_id.values() if s.status != "finished")
        return RunFigures(totals=self._totals, series=self._series)

    def read(self, record: StepRecord) -> None:
        """The next record."""
        totals, memory = self._totals, record.memory
        seconds = step_seconds(record.timing)
        totals.num_records += 1
        totals.num_steps = record.step
        totals.seconds += seconds
        outputs = {(o.seq_id, o.token_id): o for o in record.outputs}
        for entry in record.batch:
            sequence = self._by_id[entry.seq_id]
            sequence.num_steps += 1
            sequence.computed_tokens += len(entry.token_ids)
            totals.computed_tokens += len(entry.token_ids)
        for op, after in zip_longest(record.ops, record.ops[1:]):
            self._operations[str(op.__struct_config__.tag)] += 1
            if isinstance(op, Sample):
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
        seconds, steps = self._began[seq_id]
        sequence.seconds = self._totals.seconds - seconds
        if sequence.ttft is None:
            sequence.ttft, sequence.ttft_steps = sequence.seconds, token.step - steps

    def _apply(self, op: Op, record: StepRecord) -> None:
        totals = self._totals
        match op:
            case Submit():
                request = (op.request_id, self._named[op.request_id])
                self._named[op.request_id] += 1
                totals.requests += 1
                self._enter(
                    request,
                    SequenceFigures(seq_id=op.seq_id, prompt_token_ids=op.prompt_token_ids, submitted_in=record.index),
                    (totals.seconds, record.step),
                )
            case Fork():
                parent = self._by_id[op.parent_seq_id]
                child = msgspec.structs.replace(
                    parent, seq_id=op.seq_id, tokens=list(parent.tokens), submitted_in=record.index
                )
                child.num_steps = child.computed_tokens = child.num_preemptions = 0
                child.blocks_peak = child.blocks
                self._enter(self._request_of[op.parent_seq_id], child, self._began[op.parent_seq_id])
            case Lookup() if op.verdict in ("hit", "miss", "too_short"):
                if self._by_id[op.seq_id].status == "waiting":
                    totals.asked_tokens += op.num_tokens
                    totals.hit_tokens += op.num_hit_tokens
            case Admit():
                sequence = self._by_id[op.seq_id]
                if not op.resumed:
                    sequence.num_cached_tokens = op.num_cached_tokens
                sequence.status = "running"
            case Allocate() | Share():
                self._hold(op.seq_id, 1)
            case Copy():
                totals.copies += 1
            case Free() | Release():
                self._hold(op.seq_id, -1)
            case Evict():
                totals.evictions += 1
            case Preempt():
                self._by_id[op.seq_id].status = "preempted"
                self._by_id[op.seq_id].num_preemptions += 1
                totals.preemptions += 1
            case SwapOut() | SwapIn():
                totals.swapped_bytes += op.num_bytes
            case Finish():
                self._by_id[op.seq_id].status = "finished"
                self._by_id[op.seq_id].finish_reason = op.reason
            case _:
                pass

    def _enter(self, request: tuple[str, int], sequence: SequenceFigures, began: tuple[float, int]) -> None:
        self.members.setdefault(request, []).append(sequence)
        self._by_id[sequence.seq_id] = sequence
        self._request_of[sequence.seq_id] = request
        self._began[sequence.seq_id] = began

    def _hold(self, seq_id: int, blocks: int) -> None:
        sequence = self._by_id[seq_id]
        sequence.blocks += blocks
        sequence.blocks_peak = max(sequence.blocks_peak, sequence.blocks)


def _pairs(
    a: dict[tuple[str, int], list[SequenceFigures]], b: dict[tuple[str, int], list[SequenceFigures]]
) -> Iterator[SequencePair]:
    empty: dict[tuple[str, int], list[SequenceFigures]] = defaultdict(list)
    for request in {**a, **b}:
        mine, theirs = (side.get(request, empty[request]) for side in (a, b))
        for member, (x, y) in enumerate(zip_longest(mine, theirs)):
            yield _pair(request, member, x, y)


def _pair(request: tuple[str, int], member: int, a: SequenceFigures | None, b: SequenceFigures | None) -> SequencePair:
    equal, difference = 0, None
    same_prompt = a is not None and b is not None and a.prompt_token_ids == b.prompt_token_ids
    if a is not None and b is not None and same_prompt:
        for x, y in zip_longest(a.tokens, b.tokens):
            if x is not None and y is not None and x.token_id == y.token_id:
                equal += 1
                continue
            # one that has only not come so far does not differ
            if (x is not None or a.status == "finished") and (y is not None or b.status == "finished"):
                difference = TokenDifference(
                    request_id=request[0],
                    number=request[1],
                    member=member,
                    position=len(a.prompt_token_ids) + equal,
                    a=x,
                    b=y,
                )
            break
    return SequencePair(
        request_id=request[0],
        number=request[1],
        member=member,
        a=a,
        b=b,
        same_prompt=same_prompt,
        equal_tokens=equal,
        difference=difference,
    )


def _machine(log: TraceReader) -> tuple[Any, ...]:
    machine = log.header.machine
    return machine.device, machine.processor, machine.num_threads, machine.versions
