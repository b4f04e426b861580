"""Comparison of two runs: the first operation and tokens that differ, and the `figures` of each run.

The operations of both logs are compared in order up to the first difference. Sequences are paired by request id (the
n-th request of that id with the n-th) and by index within the request (the submitted sequence, its first fork, ...).
The tokens of paired sequences are compared position by position.
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
from engine.trace.id_mapping import HashMapping
from engine.trace.log import TraceReader
from engine.trace.operations import Allocate, Free, LookupExternal, Op
from engine.trace.records import Candidate, Header, StepRecord

TOLERANCE = 1e-4  # for log probabilities and scores; float32 sums in another order differ by about 1e-6
Setting = str | int | float | bool | None


class OpDifference(Struct, frozen=True, kw_only=True):
    """First operation that differs, at the same position in both logs. None: that log has no operation there."""

    record: int
    op: int
    a: Op | None
    b: Op | None
    kind_a: str | None  # kind of the record; None: the log has ended
    kind_b: str | None
    step_a: int | None
    step_b: int | None


class TokenDifference(Struct, frozen=True, kw_only=True):
    """First token of a sequence that differs. None: the sequence has already ended in that run."""

    request_id: str
    number: int
    member: int
    position: int  # position in the sequence
    a: Token | None
    b: Token | None


class SequencePair(Struct, frozen=True, kw_only=True):
    """Sequence of both runs. None: the sequence is not in that run."""

    request_id: str
    number: int  # index among the requests of that id
    member: int  # index among the request's sequences
    a: SequenceFigures | None
    b: SequenceFigures | None
    same_prompt: bool
    equal_tokens: int  # number of leading output tokens that are the same in both
    difference: TokenDifference | None  # None: no difference up to the shorter output


class SettingDifference(Struct, frozen=True, kw_only=True):
    """Engine setting that differs."""

    name: str
    a: Setting
    b: Setting


class Unsaid(Struct, frozen=True, kw_only=True):
    """Names of the totals that a log does not record, by side, and its engine. Their values have no meaning."""

    a: list[str] = []
    b: list[str] = []
    source_a: str = ""
    source_b: str = ""


class Comparison(Struct, frozen=True, kw_only=True):
    """Result of comparing two runs. The hashes of another engine are mapped before the comparison (`id_mapping`)."""

    same_model: bool
    same_machine: bool  # if not, differences in seconds may be due to the machines
    settings: list[SettingDifference]
    first_op: OpDifference | None
    first_token: TokenDifference | None
    sequences: list[SequencePair]
    a: RunFigures
    b: RunFigures
    unsaid: Unsaid = Unsaid()


def compare(a: TraceReader, b: TraceReader) -> Comparison:
    """Compare two logs, each up to its current end.

    Raises:
        TraceFormatError: a record is damaged.
        TraceStateError: a record contradicts the log before it.
    """
    reading_a, reading_b = RunReading(a.header), RunReading(b.header)
    ends = len(a), len(b)
    first_op = None
    headers = a.header, b.header
    external = [header for header in headers if _is_external(header)]
    mapping = HashMapping() if len(external) == 1 and external[0].watched is not None else None
    for index in range(max(ends)):
        records = [log.record(index) if index < end else None for log, end in zip((a, b), ends, strict=True)]
        for record, reading, log in zip(records, (reading_a, reading_b), (a, b), strict=True):
            if record is not None:
                reading.read(record, log.num_record_bytes(index))
        if first_op is None:
            first_op = _op_difference(index, records, mapping)
    pairs = list(_pairs(reading_a.members, reading_b.members))
    differences = [p.difference for p in pairs if p.difference]
    settings = {**a.header.engine, **b.header.engine}
    return Comparison(
        same_model=_model(a.header, bool(external)) == _model(b.header, bool(external)),
        same_machine=_machine(a) == _machine(b),
        settings=[
            SettingDifference(name=name, a=a.header.engine.get(name), b=b.header.engine.get(name))
            for name in settings
            if a.header.engine.get(name) != b.header.engine.get(name)
            and (not external or all(name in header.engine for header in headers))
        ],
        first_op=first_op,
        first_token=min(differences, key=lambda d: min(t.record for t in (d.a, d.b) if t), default=None),
        sequences=pairs,
        a=reading_a.figures(),
        b=reading_b.figures(),
        unsaid=Unsaid(a=_unsaid(a.header), b=_unsaid(b.header), source_a=_source(a.header), source_b=_source(b.header)),
    )


def _is_external(header: Header) -> bool:
    """Return whether the log is of another engine."""
    return header.observed is not None or header.watched is not None


def _source(header: Header) -> str:
    external = header.watched or header.observed
    return external.source if external else ""


def _unsaid(header: Header) -> list[str]:
    if header.observed is not None:  # the log records only which contents are stored and removed
        return [name for name in Totals.__struct_fields__ if name not in ("num_records", "operations")]
    return ["flops", "bytes_moved"] if header.watched is not None and "work" in header.watched.unknown else []


def _model(header: Header, counts_only: bool) -> Any:
    """Return the model facts to compare. `counts_only`: those that every engine reports in the same way."""
    model = header.model
    if not counts_only:
        return model
    return (model.architecture, model.num_layers, model.hidden_size, model.num_heads, model.num_kv_heads,
            model.head_dim, model.vocab_size)  # fmt: skip


def same(a: Any, b: Any) -> bool:
    """Return whether two values are equal. Floats may differ by TOLERANCE, and candidates within it in their order.

    The last bits of logits may differ between processors, because they sum the products in another order. Two
    differences are ignored: a reason that only one log has (`Allocate` and `Free` of earlier versions have none), and
    the estimated times of a `LookupExternal`, which are clock readings.
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
    """Compare two lists in descending order. A candidate in one list only must be within TOLERANCE of its last one."""
    if len(a) != len(b) or not all(same(x.logprob, y.logprob) for x, y in zip(a, b, strict=True)):
        return False
    for left, right in ((a, b), (b, a)):
        by_token = {candidate.token_id: candidate for candidate in right}
        for candidate in left:
            match = by_token.get(candidate.token_id)
            if match is None and candidate.logprob > left[-1].logprob + TOLERANCE:
                return False
            if match is not None and not same(candidate.logprob, match.logprob):
                return False
    return True


def first_op_that_differs(a: list[Op], b: list[Op]) -> int | None:
    """Return the index of the first difference between two lists; None if they are the same."""
    return next((i for i, (x, y) in enumerate(zip_longest(a, b)) if not same(x, y)), None)


def _op_difference(index: int, records: list[StepRecord | None], mapping: HashMapping | None) -> OpDifference | None:
    a, b = records
    ops = [record.ops if record else [] for record in (a, b)]
    position = first_op_that_differs(*(mapping.pair(*ops) if mapping else ops))
    if position is None:
        if a is not None and b is not None:
            return None
        position = 0  # one log has ended, and the record of the other log has no operations
    found = [side[position] if position < len(side) else None for side in ops]
    return OpDifference(
        record=index,
        op=position,
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
        members = (side.get(request, empty[request]) for side in (a, b))
        for member, (x, y) in enumerate(zip_longest(*members)):
            yield _pair(request, member, x, y)


def _pair(request: tuple[str, int], member: int, a: SequenceFigures | None, b: SequenceFigures | None) -> SequencePair:
    equal, difference = 0, None
    same_prompt = a is not None and b is not None and a.prompt_token_ids == b.prompt_token_ids
    if a is not None and b is not None and same_prompt:
        for x, y in zip_longest(a.tokens, b.tokens):
            if x is not None and y is not None and x.token_id == y.token_id:
                equal += 1
                continue
            # a sequence that is only shorter, because it has not finished, does not differ
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
