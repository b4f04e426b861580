"""Decoder of the KV cache events of vLLM and SGLang, in all published formats.

A message is a msgpack array `[ts, [event, ...], data_parallel_rank]`, or a map with these keys. An event is a map with
`type`, or (older) an array of its name and its fields in order. Trailing fields may be missing. Hashes are bytes or
integers. Source: vLLM's `vllm/distributed/kv_events.py`; llm-d publishes the same format.

SGLang (`python/sglang/srt/disaggregation/kv_events.py` and `mem_cache/events.py`) uses the same names. The rank is
`attn_dp_rank`, hashes are signed 64-bit integers, and a block is a page, which may be partial. An array has six fields,
followed by a map of further hash inputs; `cache_salt` is in this map or in the event's map. With a draft model, tokens
are reported as pairs of neighbours and are recorded as unknown. Early versions hash only the tokens of the page, so
pages of several prompts may share a hash.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import msgspec

STORED = (
    "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
    "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality", "ownership",
)  # fmt: skip
REMOVED = ("block_hashes", "medium", "group_idx", "locality", "ownership")
BATCH = ("ts", "events", "data_parallel_rank")
SALT = "cache_salt"
MAX_WHOLE = (1 << 53) - 1  # largest integer in a trace
GPU = "GPU"  # default medium, the only one of early versions


class EventError(ValueError):
    """The message has an unknown format."""


@dataclass(frozen=True, slots=True)
class Content:
    """Block of a `BlockStored` event."""

    block_hash: bytes
    parent_hash: bytes | None  # None: first block of a sequence, or `parent_unsaid`
    parent_unsaid: bool  # whether the parent is not reported
    token_ids: list[int]  # empty: not reported, or not attributable to this block
    extra_keys: str | None  # as JSON


@dataclass(frozen=True, slots=True)
class BlockStored:
    contents: list[Content]
    medium: str  # upper case; "": not reported
    group: int | None = None
    kind: str | None = None
    window: int | None = None
    lora_name: str | None = None
    locality: str | None = None  # LOCAL or REMOTE, relative to the publisher
    tier: str | None = None  # name of the store within the medium
    may_be_reuse: bool = False  # whether this may report a reuse, which vLLM does if configured to


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    block_hashes: list[bytes]
    medium: str
    group: int | None = None
    tier: str | None = None


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    pass


Event = BlockStored | BlockRemoved | AllBlocksCleared


@dataclass(frozen=True, slots=True)
class Batch:
    """Decoded message."""

    published: float | None  # Unix time in seconds, by the server's clock
    events: list[Event]
    num_unread: int  # number of events of unknown types
    rank: int | None  # data-parallel


def decode(payload: bytes) -> Batch:
    """Decode the events of one message.

    Raises:
        EventError: the format is unknown.
    """
    try:
        fields = _fields(msgspec.msgpack.decode(payload), BATCH)
        raw = fields.get("events")
        if not isinstance(raw, list):
            raise EventError("the message has no list of events")
        found = [_event(one) for one in raw]
        ts, rank = fields.get("ts"), fields.get("data_parallel_rank", fields.get("attn_dp_rank"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EventError(f"the message is not msgpack: {error}") from error
    return Batch(
        published=float(ts) if isinstance(ts, int | float) and math.isfinite(ts) else None,
        events=[event for event in found if event is not None],
        num_unread=found.count(None),
        rank=_whole(rank),
    )


def _event(raw: Any) -> Event | None:
    """Return None for unknown event types."""
    if isinstance(raw, dict):
        kind, fields = raw.get("type"), raw
    elif isinstance(raw, list) and raw:
        kind = raw[0]
        fields = _fields(raw[1:], {"BlockStored": STORED, "BlockRemoved": REMOVED}.get(str(kind), ()))
    else:
        raise EventError("an event is neither a map nor an array that begins with its name")
    match kind:
        case "BlockStored":
            return _stored(fields)
        case "BlockRemoved":
            hashes = [_hash(one) for one in _list(fields, "block_hashes")]
            return BlockRemoved(
                hashes, _medium(fields), _whole(fields.get("group_idx")), _name(fields.get("ownership"))
            )
        case "AllBlocksCleared":
            return AllBlocksCleared()
        case _:
            return None


def _stored(fields: dict[str, Any]) -> BlockStored:
    hashes = [_hash(one) for one in _list(fields, "block_hashes")]
    tokens, block_size = fields.get("token_ids") or [], fields.get("block_size")
    size = block_size if isinstance(block_size, int) and block_size > 0 else 0
    count = len(tokens) if isinstance(tokens, list) else 0
    if isinstance(tokens, list) and all(isinstance(token, list) for token in tokens):
        tokens = []  # pairs
    if not isinstance(tokens, list) or not all(_whole(token) is not None for token in tokens):
        raise EventError("token_ids of a BlockStored are not a list of integers")
    # Without tokens, the order of blocks is unknown. If a group stores only some of its blocks, token_ids also has the
    # tokens of the other blocks, so neither tokens nor parents can be attributed.
    is_chain = (len(hashes) - 1) * size < count <= len(hashes) * size
    each = size if is_chain and tokens else 0  # 0: unknown
    extra = fields.get("extra_keys")
    salt = _salt(fields)
    keys = extra if isinstance(extra, list) and len(extra) == len(hashes) else [salt] * len(hashes)
    before = fields.get("parent_block_hash")
    parents = [None if before is None else _hash(before), *hashes]
    known = [is_chain or (i == 0 and before is not None and not count) for i in range(len(hashes))]
    return BlockStored(
        contents=[
            Content(
                block_hash=one,
                parent_hash=parents[i] if known[i] else None,
                parent_unsaid=not known[i],
                token_ids=tokens[i * each : (i + 1) * each],
                extra_keys=_text(keys[i]),
            )
            for i, one in enumerate(hashes)
        ],
        medium=_medium(fields),
        group=_whole(fields.get("group_idx")),
        kind=_name(fields.get("kv_cache_spec_kind")),
        window=_whole(fields.get("kv_cache_spec_sliding_window")),
        lora_name=_name(fields.get("lora_name")),
        locality=_name(fields.get("locality")),
        tier=_name(fields.get("ownership")),
        may_be_reuse=before is None,
    )


def _salt(fields: dict[str, Any]) -> dict[str, str] | None:
    """Return the cache salt of an SGLang event: from its map, or from the array's map at the index of `lora_name`."""
    more = fields.get("lora_name")
    salt = more.get(SALT) if isinstance(more, dict) else fields.get(SALT)
    return {SALT: salt} if isinstance(salt, str) else None


def _fields(raw: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields by name. An array has the leading fields of `names`."""
    if isinstance(raw, dict):
        return raw
    if not isinstance(raw, list):
        raise EventError("the message is neither a map nor an array")
    return dict(zip(names, raw, strict=False))


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    found = fields.get(name)
    if not isinstance(found, list):
        raise EventError(f"an event has no list of {name}")
    return found


def _hash(raw: Any) -> bytes:
    """Return bytes unchanged, and an integer as 8 bytes, big-endian, two's complement."""
    if isinstance(raw, bytes):
        return raw
    if isinstance(raw, int) and not isinstance(raw, bool):
        return (raw & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "big")
    raise EventError(f"a block's hash is neither bytes nor a whole number: {str(raw)[:40]!r}")


def _medium(fields: dict[str, Any]) -> str:
    return (_name(fields.get("medium")) or "").upper()


def _name(raw: Any) -> str | None:
    return raw if isinstance(raw, str) else None


def _whole(raw: Any) -> int | None:
    return raw if isinstance(raw, int) and not isinstance(raw, bool) and abs(raw) <= MAX_WHOLE else None


def _text(raw: Any) -> str | None:
    """Return the extra keys of a block's hash as JSON, or None."""
    if not raw:
        return None
    return json.dumps(raw, default=lambda one: one.hex() if isinstance(one, bytes) else str(one), ensure_ascii=False)
