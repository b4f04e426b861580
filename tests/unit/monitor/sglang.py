"""SGLang's KV events as bytes, in the three forms of its versions.

Facts from github.com/sgl-project/sglang (Apache-2.0), `python/sglang/srt/disaggregation/kv_events.py` at commit
612d579090db24ec7c47cc5ca6b83e0c649b8c28 (`FIVE`: arrays of five fields, and the rank after the events), the same file
with media and metadata as quoted in its pull requests 27735 and 37482 (`SEVEN`: arrays, a medium, and a map of metadata
where there is a salt), and `mem_cache/events.py` at 06f643f402f0d7e1c4fd480f6854b742fa642951 with pull request 37482
(`MAPS`: tagged maps with `cache_salt`, `session_id` and `lora_name`). The bytes are constructed, not captured.
"""

from typing import Any, Literal

import msgspec

Form = Literal["FIVE", "SEVEN", "MAPS"]
FORMS: tuple[Form, ...] = ("FIVE", "SEVEN", "MAPS")


def page_stored(
    form: Form,
    hashes: list[int],
    tokens: list[Any],
    size: int,
    parent: int | None = None,
    medium: str = "GPU",
    salt: str | None = None,
) -> Any:
    """Return a `BlockStored` with pages of `size` tokens and signed 64-bit hashes."""
    if form == "MAPS":
        fields = {"block_hashes": hashes, "parent_block_hash": parent, "token_ids": tokens, "block_size": size}
        more = {name: value for name, value in {"medium": medium, "cache_salt": salt}.items() if value is not None}
        return {"type": "BlockStored", **fields, "lora_id": None, **more, "session_id": "one"}
    event = ["BlockStored", hashes, parent, tokens, size, None]
    if form == "FIVE":
        return event
    return [*event, medium] if salt is None else [*event, medium, {"cache_salt": salt}]


def page_removed(form: Form, hashes: list[int], medium: str = "GPU") -> Any:
    """Return a `BlockRemoved`."""
    if form == "MAPS":
        return {"type": "BlockRemoved", "block_hashes": hashes, "medium": medium}
    return ["BlockRemoved", hashes] if form == "FIVE" else ["BlockRemoved", hashes, medium]


def cleared(form: Form) -> Any:
    """Return an `AllBlocksCleared`."""
    return {"type": "AllBlocksCleared"} if form == "MAPS" else ["AllBlocksCleared"]


def batch(form: Form, *events: Any, rank: int = 0) -> bytes:
    """Return a message, which is a map in the newest form."""
    if form == "MAPS":
        return msgspec.msgpack.encode({"ts": 1.0, "events": list(events), "attn_dp_rank": rank})
    return msgspec.msgpack.encode([1.0, list(events), rank])
