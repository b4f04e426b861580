"""Select the texts of an operation, and the values for their placeholders.

`static/js/core/messages.js` mirrors this file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from msgspec import Struct, inspect

from engine.trace.messages.labels import lone_label
from engine.trace.operations import (
    Admit,
    Allocate,
    Choose,
    Copy,
    Draft,
    Evict,
    Finish,
    Forget,
    Free,
    Lookup,
    LookupExternal,
    Op,
    Preempt,
    Rank,
    Release,
    Removed,
    Sample,
    Send,
    Share,
    Stored,
    Submit,
    Verify,
)
from engine.trace.records import BatchEntry, Header, StepRecord

Values = dict[str, Any]
HEADER_VALUES = ("block_size", "max_num_seqs", "max_num_batched_tokens")


class Context(Struct, frozen=True, kw_only=True):
    """Context of an operation. `index` is its index in the record's `ops`."""

    header: Header
    record: StepRecord
    index: int


class MessageKey(Struct, frozen=True, kw_only=True):
    """Text to render: its `key` without the register, and the values of its placeholders."""

    key: str
    values: Values


class Facet(Struct, frozen=True, kw_only=True):
    """Property of an operation that selects a text. `of` returns one of `values`, or None if the log lacks it."""

    name: str
    values: tuple[str, ...]
    of: Callable[[Any, Context | None], str | None]


def messages_of(op: Op, context: Context | None = None) -> list[MessageKey]:
    """Return the keys for the operation's type and its facets. Without a context, facets of its record are omitted."""
    values = _values(op, context)
    key = f"op.{op.__struct_config__.tag}"
    found = [MessageKey(key=key, values=values)]
    for facet in facets_of(type(op)):
        value = facet.of(op, context)
        if value is not None:
            found.append(MessageKey(key=f"{key}.{facet.name}.{value}", values=values))
    return found


@functools.cache
def facets_of(kind: type[Op]) -> tuple[Facet, ...]:
    """Return the facets of an operation type in order: those of CASES, or all fields with a fixed set of values."""
    fields = {facet.name: facet for facet in _field_facets(kind)}
    if kind not in CASES:
        return tuple(fields.values())
    return tuple(fields[case] if isinstance(case, str) else case for case in CASES[kind])


def _field_facets(kind: type[Op]) -> list[Facet]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    found = []
    for field in sorted(info.fields, key=lambda field: not field.required):
        types = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        literals = [str(value) for each in types if isinstance(each, inspect.LiteralType) for value in each.values]
        if literals and any(isinstance(each, inspect.NoneType) for each in types):
            literals.append("none")
        if isinstance(field.type, inspect.BoolType):
            literals = ["false", "true"]
        if literals:
            found.append(Facet(name=field.name, values=tuple(literals), of=_field(field.name)))
    return found


def _field(name: str) -> Callable[[Op, Context | None], str]:
    return lambda op, _: str(getattr(op, name)).lower() if not isinstance(getattr(op, name), str) else getattr(op, name)


def _case(name: str, values: str, of: Callable[[Any, Context | None], str | None]) -> Facet:
    return Facet(name=name, values=tuple(values.split()), of=of)


def _entry_kind(op: Admit, _: Context | None) -> str:
    return "swapped" if op.num_swapped_tokens > 0 else "resumed" if op.resumed else "new"


def _times(op: LookupExternal, _: Context | None) -> str:
    """Return whether both estimated times are known; "none" for a miss."""
    if op.load_seconds is not None and op.compute_seconds is not None:
        return "known"
    return "none" if op.verdict == "miss" else "unknown"


def _computed(op: Admit, context: Context | None) -> str | None:
    return None if context is None else "now" if _batch_entry(op.seq_id, context) else "later"


def _last_block(op: Lookup, context: Context | None) -> str | None:
    """Return "spared" if only a full last block did not hit, because its last token must be computed, else "asked"."""
    size = context.header.engine.get("block_size") if context else None
    if not isinstance(size, int):
        return None
    is_last = op.verdict == "miss" or (op.verdict == "hit" and op.num_hit_tokens == op.num_tokens - size)
    return "spared" if is_last and op.num_tokens % size == 0 else "asked"


def _evict_cause(op: Evict, context: Context | None) -> str:
    return "promise" if context is not None and _taker(op, context) is None else "allocation"


def _preempt_cost(op: Preempt, _: Context | None) -> str:
    if op.mode != "recompute":
        return op.mode
    return "kept" if op.num_kept_tokens > 0 else "lost"


CASES: dict[type[Op], tuple[str | Facet, ...]] = {
    Submit: (
        _case("rank", "usual given", lambda op, _: "given" if op.priority else "usual"),
        _case("salt", "none given", lambda op, _: "given" if op.cache_salt else "none"),
    ),
    Lookup: ("verdict", "reason", _case("last_block", "asked spared", _last_block)),
    LookupExternal: ("verdict", _case("times", "none known unknown", _times)),
    Admit: (
        _case("entry", "new resumed swapped", _entry_kind),
        _case("external", "none some", lambda op, _: "some" if op.num_external_tokens > 0 else "none"),
        _case("computed", "now later", _computed),
    ),
    Evict: (
        _case("cause", "allocation promise", _evict_cause),
        _case("life", "unknown known", lambda op, _: "known" if op.lifetime_steps > 0 else "unknown"),
    ),
    Free: ("reason", "to"),
    Release: ("reason", "to"),
    Stored: ("again",),
    Removed: (_case("copies", "none left", lambda op, _: "left" if op.num_left > 0 else "none"),),
    Share: (),  # the texts of `share` have the number of revived blocks
    Sample: (
        _case("settled", "no outside", lambda op, _: "no" if op.sampled_token_id is None else "outside"),
    ),
    Preempt: (
        _case("whom", "other itself", lambda op, _: "itself" if op.for_seq_id == op.seq_id else "other"),
        "reason",
        _case("cost", "swap lost kept", _preempt_cost),
        "swap_refused",
    ),
    Finish: ("reason", _case("cause", "unsaid said", lambda op, _: "said" if op.detail else "unsaid")),
}  # fmt: skip


def _values(op: Op, context: Context | None) -> Values:
    """Return the values for placeholders: limits, fields, derived values, and the counts `n` and `num_seqs`."""
    fields = {name: getattr(op, name) for name in op.__struct_fields__}
    limits = {name: context.header.engine.get(name) for name in HEADER_VALUES} if context else {}
    values = {**limits, **fields, **_derived(op), **(_from_record(op, context) if context else {})}
    return {"n": 1, "num_seqs": 1, **{name: value for name, value in values.items() if value is not None}}


def _derived(op: Op) -> Values:
    match op:
        case Submit():
            return {"num_prompt_tokens": len(op.prompt_token_ids), "place": op.queue_position + 1}
        case Lookup():
            return {"num_blocks": len(op.block_ids)}
        case LookupExternal():
            return {"num_blocks": len(op.media)}
        case Send():
            return {"num_blocks": len(op.block_ids)}
        case Draft():
            return {"num_drafts": len(op.token_ids), "text": "".join(map(lone_label, op.token_bytes))}
        case Verify():
            return {"num_rejected": op.num_drafted - op.num_accepted}
        case Choose():
            return {"token": lone_label(op.token_bytes)}
        case Sample():
            sampled = op.sampled_token_id
            return {"token": f"#{op.token_id}", "sampled_token": None if sampled is None else f"#{sampled}"}
        case Forget():
            return {"num_keys": sum(map(len, op.positions))}
        case Preempt():
            # older logs do not have num_recompute_tokens
            return {"num_lost_tokens": op.num_recompute_tokens or op.num_computed_tokens}
        case Rank():
            return {"num_sequences": len(op.seq_ids)}
    return {}


def _from_record(op: Op, context: Context) -> Values:
    """Return the values for placeholders that depend on the record and the header."""
    size = context.header.engine.get("block_size")
    match op:
        case Lookup() if isinstance(size, int):
            return {"num_full_blocks": (op.num_tokens - 1) // size}
        case Admit():
            entry = _batch_entry(op.seq_id, context)
            return {"num_scheduled_tokens": len(entry.token_ids) if entry else None}
        case Allocate() if isinstance(size, int):
            entry, copy = _batch_entry(op.seq_id, context), _next(context)
            first = entry.start if entry else op.logical * size
            return {
                "position": op.logical * size,
                "first": first,
                "last": first + len(entry.token_ids) - 1 if entry else first + size - 1,
                "src": copy.src if isinstance(copy, Copy) else None,
            }
        case Evict():
            taker = _taker(op, context)
            return {"taker_seq_id": op.seq_id if taker is None else taker}
        case Sample():
            names = {"token": op.token_id, "sampled_token": op.sampled_token_id}
            return {name: _token(op.seq_id, token, context) for name, token in names.items() if token is not None}
    return {}


def _batch_entry(seq_id: int, context: Context) -> BatchEntry | None:
    return next((entry for entry in context.record.batch if entry.seq_id == seq_id), None)


def _next(context: Context) -> Op | None:
    following = context.record.ops[context.index + 1 : context.index + 2]
    return following[0] if following else None


def _taker(op: Evict, context: Context) -> int | None:
    """Return the sequence to which the evicted block is allocated in the same record, if any."""
    for other in context.record.ops[context.index + 1 :]:
        if isinstance(other, Allocate) and other.block_id == op.block_id:
            return other.seq_id
    return None


def _token(seq_id: int, token_id: int, context: Context) -> str:
    """Return the token's text if the record's outputs contain the token, else its id."""
    own = [output for output in context.record.outputs if output.seq_id == seq_id]
    known = [(output.token_id, output.token_bytes) for output in own]
    known += [(candidate.token_id, candidate.token_bytes) for output in own for candidate in output.top]
    for known_id, token_bytes in known:
        if known_id == token_id:
            return lone_label(token_bytes)
    return f"#{token_id}"
