"""KV cache events of vLLM and SGLang: decoding of a message's bytes to typed events, in each form in use.

A message is a msgpack array `[ts, [event, ...], data_parallel_rank]`, or a map with these names. An event is a map with
`type`, or the older array with its name first and its fields in order. Fields at the end may be missing. Hashes are
bytes or whole numbers. vLLM's `vllm/distributed/kv_events.py` is the source, and llm-d publishes the same.

SGLang's (`python/sglang/srt/disaggregation/kv_events.py` and `mem_cache/events.py`) have the same names: `attn_dp_rank`
is the rank, hashes are signed 64-bit numbers, a page is a block, and may be short. An array has six fields, followed by
a map of the other inputs of the content's key: there, or in the event's own map, `cache_salt`. With a draft model a
page's tokens are pairs of neighbours, so no token of such a page is known. Early versions name a page by its own tokens
alone, so one name may stand for pages of several prompts.
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
MAX_WHOLE = (1 << 53) - 1  # what a trace takes
GPU = "GPU"  # where contents are of which no medium is named: the first versions had no other


class EventError(ValueError):
    """A message that is none of the known forms; one sentence."""


@dataclass(frozen=True, slots=True)
class Content:
    """Block of a `BlockStored`."""

    block_hash: bytes
    parent_hash: bytes | None  # of the content before it; None: a sequence begins with it, or `parent_unsaid`
    parent_unsaid: bool  # what comes before it was not said
    token_ids: list[int]  # empty: not said, or not which of them are this block's
    extra_keys: str | None  # as JSON


@dataclass(frozen=True, slots=True)
class BlockStored:
    contents: list[Content]
    medium: str  # in capitals; "" = not said
    group: int | None = None
    kind: str | None = None
    window: int | None = None
    lora_name: str | None = None
    locality: str | None = None  # LOCAL or REMOTE, as its publisher sees it
    tier: str | None = None  # which of several stores of a medium
    may_be_reuse: bool = False  # perhaps blocks that a request reused; vLLM reports these if configured to


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

    published: float | None  # the server's clock, seconds since 1970
    events: list[Event]
    num_unread: int  # events of kinds that are not known here
    rank: int | None  # data-parallel


def decode(payload: bytes) -> Batch:
    """Return the events of one message.

    Raises:
        EventError: it is none of the known forms.
    """
    try:
        said = _fields(msgspec.msgpack.decode(payload), BATCH)
        raw = said.get("events")
        if not isinstance(raw, list):
            raise EventError("the message has no list of events")
        found = [_event(one) for one in raw]
        ts, rank = said.get("ts"), said.get("data_parallel_rank", said.get("attn_dp_rank"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EventError(f"the message is no msgpack: {error}") from error
    return Batch(
        published=float(ts) if isinstance(ts, int | float) and math.isfinite(ts) else None,
        events=[event for event in found if event is not None],
        num_unread=found.count(None),
        rank=_whole(rank),
    )


def _event(raw: Any) -> Event | None:
    """None: of a kind that is not known."""
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
    tokens, said = fields.get("token_ids") or [], fields.get("block_size")
    size = said if isinstance(said, int) and said > 0 else 0
    count = len(tokens) if isinstance(tokens, list) else 0
    if isinstance(tokens, list) and all(isinstance(token, list) for token in tokens):
        tokens = []  # pairs
    if not isinstance(tokens, list) or not all(_whole(token) is not None for token in tokens):
        raise EventError("token_ids of a BlockStored are no list of whole numbers")
    # Without tokens it is a placeholder: its blocks are in any order. Of a group that keeps only some of its blocks the
    # tokens of the others are there too: whose they are is unknown, and what comes before which block.
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
    """SGLang's, of all blocks of an event: in the event's map, or in the map where vLLM's array has the LoRA's name."""
    more = fields.get("lora_name")
    salt = more.get(SALT) if isinstance(more, dict) else fields.get(SALT)
    return {SALT: salt} if isinstance(salt, str) else None


def _fields(raw: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """By name: of an array those that are there, in order; later ones are not known here."""
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
    """Return the bytes as they are; a number as its 8 bytes, big-endian, a negative one as vLLM's older 64-bit
    hashes.
    """
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
    """Return the other inputs of a block's hash as JSON; None without any."""
    if not raw:
        return None
    return json.dumps(raw, default=lambda one: one.hex() if isinstance(one, bytes) else str(one), ensure_ascii=False)
