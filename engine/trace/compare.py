"""Comparison of two runs: where they diverge, and the `figures` of each. Pure: two logs in, numbers out.

The records of both are read in order up to the first operation that differs. Sequences are paired by request id (the
n-th request of that id with the n-th) and by index within the request (the submitted sequence, its first fork, ...).
Position p of a sequence is compared with position p of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from engine.trace.figures import RunFigures, RunReading, SequenceFigures, Token, Totals
from engine.trace.id_mapping import Renamed
from engine.trace.log import TraceReader
from engine.trace.operations import Allocate, Free, LookupExternal, Op
from engine.trace.records import Candidate, Header, StepRecord

TOLERANCE = 1e-4  # of log probabilities and scores; float32 sums in another order differ by about 1e-6
Setting = str | int | float | bool | None


class OpDifference(Struct, frozen=True, kw_only=True):
    """First operation that differs, at the same place in both logs. None: that log has no operation there."""

    record: int
    op: int
    a: Op | None
    b: Op | None
    kind_a: str | None  # of the record; None: the log has ended
    kind_b: str | None
    step_a: int | None
    step_b: int | None


class TokenDifference(Struct, frozen=True, kw_only=True):
    """First token of a sequence that differs. None: in that run the sequence has ended."""

    request_id: str
    number: int
    member: int
    position: int  # in the sequence
    a: Token | None
    b: Token | None


class SequencePair(Struct, frozen=True, kw_only=True):
    """Sequence of both runs; None: not in that run."""

    request_id: str
    number: int  # index among the requests of that id
    member: int  # index among the request's sequences
    a: SequenceFigures | None
    b: SequenceFigures | None
    same_prompt: bool
    equal_tokens: int  # leading output tokens that are the same in both
    difference: TokenDifference | None  # None: no difference up to the shorter output


class SettingDifference(Struct, frozen=True, kw_only=True):
    """Engine setting that differs."""

    name: str
    a: Setting
    b: Setting


class Unsaid(Struct, frozen=True, kw_only=True):
    """Totals that a log does not record, by side, and its engine. Their fields have meaningless values."""

    a: list[str] = []
    b: list[str] = []
    source_a: str = ""
    source_b: str = ""


class Comparison(Struct, frozen=True, kw_only=True):
    """Result of comparing two runs. For another engine's run names are mapped first (`id_mapping`), not compared."""

    same_model: bool
    same_machine: bool  # if not, seconds also compare the machines
    settings: list[SettingDifference]
    first_op: OpDifference | None
    first_token: TokenDifference | None
    sequences: list[SequencePair]
    a: RunFigures
    b: RunFigures
    unsaid: Unsaid = Unsaid()


def compare(a: TraceReader, b: TraceReader) -> Comparison:
    """Compare two logs as they are now; a growing log up to its current end.

    Raises:
        TraceFormatError: a damaged record.
        TraceStateError: a record that contradicts the log before it.
    """
    one, two = RunReading(a.header), RunReading(b.header)
    ends = len(a), len(b)
    first_op = None
    headers = a.header, b.header
    others = [header for header in headers if _is_external(header)]
    renamed = Renamed() if len(others) == 1 and others[0].watched is not None else None
    for index in range(max(ends)):
        records = [log.record(index) if index < end else None for log, end in zip((a, b), ends, strict=True)]
        for record, reading, log in zip(records, (one, two), (a, b), strict=True):
            if record is not None:
                reading.read(record, log.num_record_bytes(index))
        if first_op is None:
            first_op = _op_difference(index, records, renamed)
    pairs = list(_pairs(one.members, two.members))
    parted = [p.difference for p in pairs if p.difference]
    settings = {**a.header.engine, **b.header.engine}
    return Comparison(
        same_model=_model(a.header, bool(others)) == _model(b.header, bool(others)),
        same_machine=_machine(a) == _machine(b),
        settings=[
            SettingDifference(name=name, a=a.header.engine.get(name), b=b.header.engine.get(name))
            for name in settings
            if a.header.engine.get(name) != b.header.engine.get(name)
            and (not others or all(name in header.engine for header in headers))
        ],
        first_op=first_op,
        first_token=min(parted, key=lambda d: min(t.record for t in (d.a, d.b) if t), default=None),
        sequences=pairs,
        a=one.figures(),
        b=two.figures(),
        unsaid=Unsaid(a=_unsaid(a.header), b=_unsaid(b.header), source_a=_source(a.header), source_b=_source(b.header)),
    )


def _is_external(header: Header) -> bool:
    """Return whether the log is of another engine."""
    return header.observed is not None or header.watched is not None


def _source(header: Header) -> str:
    of = header.watched or header.observed
    return of.source if of else ""


def _unsaid(header: Header) -> list[str]:
    if header.observed is not None:  # it records only which contents are stored and removed
        return [name for name in Totals.__struct_fields__ if name not in ("num_records", "operations")]
    return ["flops", "bytes_moved"] if header.watched is not None and "work" in header.watched.unknown else []


def _model(header: Header, counts_only: bool) -> Any:
    """Return the model facts that runs of the same model share, whichever engine recorded them."""
    model = header.model
    if not counts_only:
        return model
    return (model.architecture, model.num_layers, model.hidden_size, model.num_heads, model.num_kv_heads,
            model.head_dim, model.vocab_size)  # fmt: skip


def same(a: Any, b: Any) -> bool:
    """Return whether two values are equal: real numbers up to TOLERANCE, candidates that close in any order.

    Only the last bits of logits may differ between processors, because products and sums are taken in another order.
    Ignored are a reason that one log lacks (`Allocate`, `Free`; logs of earlier versions), and the estimated times of a
    `LookupExternal`, which are clock readings.
    """
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= TOLERANCE
    if isinstance(a, list) and isinstance(b, list):
        if a and b and isinstance(a[0], Candidate) and isinstance(b[0], Candidate):
            return _same_candidates(a, b)
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, msgspec.Struct) and type(a) is type(b):
        if isinstance(a, Allocate | Free) and isinstance(b, Allocate | Free) and None in (a.reason, b.reason):
            return replace(a, reason=None) == replace(b, reason=None)
        if isinstance(a, LookupExternal) and isinstance(b, LookupExternal):
            a, b = (replace(op, load_seconds=None, compute_seconds=None) for op in (a, b))
        return a == b or all(same(getattr(a, name), getattr(b, name)) for name in a.__struct_fields__)
    return bool(a == b)


def _same_candidates(a: list[Candidate], b: list[Candidate]) -> bool:
    """Compare two lists, best first. A candidate in only one list must be within TOLERANCE of that list's last."""
    if len(a) != len(b) or not all(same(x.logprob, y.logprob) for x, y in zip(a, b, strict=True)):
        return False
    for mine, theirs in ((a, b), (b, a)):
        others = {candidate.token_id: candidate for candidate in theirs}
        for candidate in mine:
            other = others.get(candidate.token_id)
            if other is None and candidate.logprob > mine[-1].logprob + TOLERANCE:
                return False
            if other is not None and not same(candidate.logprob, other.logprob):
                return False
    return True


def first_op_that_differs(a: list[Op], b: list[Op]) -> int | None:
    """Return the index of the first difference between two lists; None if they are the same."""
    return next((i for i, (x, y) in enumerate(zip_longest(a, b)) if not same(x, y)), None)


def _op_difference(index: int, records: list[StepRecord | None], renamed: Renamed | None = None) -> OpDifference | None:
    a, b = records
    ops = [record.ops if record else [] for record in (a, b)]
    place = first_op_that_differs(*(renamed.pair(*ops) if renamed else ops))
    if place is None:
        if a is not None and b is not None:
            return None
        place = 0  # one log has ended, and the other's record has no operations
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
            # a sequence that is only shorter does not differ
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
