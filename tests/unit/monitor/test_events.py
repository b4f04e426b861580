"""Decoding of vLLM's events in each of their forms, and refusal of invalid ones in one sentence."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.observe.monitor.events import (
    REMOVED,
    STORED,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventError,
    decode,
)
from tests.unit.monitor.publisher import message, removed, stored

HASH = st.one_of(st.binary(min_size=1, max_size=32), st.integers(-(2**63), 2**64 - 1))


@st.composite
def stored_maps(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(1, 4))
    hashes = draw(st.lists(HASH, min_size=1, max_size=4))
    has_tokens = draw(st.booleans())
    token = st.integers(0, 2**31)
    count = size * len(hashes)
    tokens = draw(st.lists(token, min_size=count, max_size=count)) if has_tokens else []
    return stored(
        hashes,
        tokens,
        size,
        draw(st.none() | HASH),
        medium=draw(st.sampled_from([None, "GPU", "cpu", "CPU", "STORAGE"])),
        lora_name=draw(st.none() | st.text(max_size=4)),
        extra_keys=draw(st.none() | st.just([["salt"]] * len(hashes))),
        group_idx=draw(st.none() | st.integers(0, 3)),
        kv_cache_spec_kind=draw(st.none() | st.just("full_attention")),
        kv_cache_spec_sliding_window=draw(st.none() | st.just(128)),
    )


def as_array(event: dict[str, Any], names: tuple[str, ...], keep: int) -> list[Any]:
    """Return the event as an array of its first `keep` fields."""
    return [event["type"], *(event.get(name) for name in names[:keep])]


@given(stored_maps(), st.integers(0, len(STORED)))
def test_maps_and_shortened_arrays_decode_equally(event: dict[str, Any], cut: int) -> None:
    keep = max(cut, 4)  # the fields of every version
    short = {name: value for name, value in event.items() if name == "type" or name in STORED[:keep]}
    assert decode(message(short)) == decode(message(as_array(event, STORED, keep)))
    (found,) = decode(message(event)).events
    assert isinstance(found, BlockStored)
    assert [content.block_hash for content in found.contents] == [as_bytes(one) for one in event["block_hashes"]]
    tokens = [token for content in found.contents for token in content.token_ids]
    assert tokens == event["token_ids"]
    before = event["parent_block_hash"]
    if event["token_ids"]:
        parents = [None if before is None else as_bytes(before), *(as_bytes(one) for one in event["block_hashes"][:-1])]
        assert [content.parent_hash for content in found.contents] == parents
    assert found.medium == (event["medium"] or "").upper()
    assert (found.group, found.lora_name) == (event["group_idx"], event["lora_name"])


@given(st.lists(HASH, max_size=4), st.none() | st.integers(0, 3), st.integers(1, len(REMOVED)))
def test_removed_events_are_decoded(hashes: list[Any], group: int | None, keep: int) -> None:
    event = removed(hashes, group_idx=group)
    short = {name: value for name, value in event.items() if name == "type" or name in REMOVED[:keep]}
    assert decode(message(short)) == decode(message(as_array(event, REMOVED, keep)))
    assert decode(message(event)).events == [BlockRemoved([as_bytes(one) for one in hashes], "GPU", group)]


def as_bytes(raw: bytes | int) -> bytes:
    return raw if isinstance(raw, bytes) else raw.to_bytes(8, "big", signed=raw < 0)


def test_a_message_may_be_a_map_and_may_lack_its_rank() -> None:
    events = [{"type": "AllBlocksCleared"}, ["AllBlocksCleared"]]
    for payload in ([2.5, events], {"ts": 2.5, "events": events}):
        batch = decode(msgspec.msgpack.encode(payload))
        assert (batch.published, batch.rank, batch.num_unread) == (2.5, None, 0)
        assert batch.events == [AllBlocksCleared(), AllBlocksCleared()]


def test_tokens_of_skipped_blocks_are_not_attributed() -> None:
    (found,) = decode(message(stored([b"a", b"c"], list(range(6)), 2))).events  # tokens of three blocks for two hashes
    assert isinstance(found, BlockStored)
    assert [content.token_ids for content in found.contents] == [[], []]
    assert [(one.parent_hash, one.parent_unsaid) for one in found.contents] == [(None, True), (None, True)]


@pytest.mark.parametrize(
    ("event", "parents"),
    [
        (stored([b"a", b"b"], [1, 2, 3, 4], 2), [None, b"a"]),
        (stored([b"a"], [], 0, medium="CPU"), ["?"]),  # a block that vLLM moved to the CPU
        (stored([b"a", b"b"], [], 2, medium="CPU"), ["?", "?"]),  # several blocks, in any order
        (stored([b"b", b"c"], [], 2, b"a", medium="CPU"), [b"a", "?"]),
        (stored([b"c"], [1, 2, 3, 4], 2, b"a"), ["?"]),  # the hash may belong to either of two blocks
        (stored([b"a", b"c"], list(range(6)), 2), ["?", "?"]),
        (stored([b"b", b"c"], [1, 2, 3], 2, b"a"), [b"a", b"b"]),  # a partial last page
        ({**stored([b"a", b"b"], [], 2), "token_ids": [[1, 2], [2, 3], [3, 4], [4, 5]]}, [None, b"a"]),  # pairs
    ],
)
def test_the_parent_is_known_only_if_reported(event: dict[str, Any], parents: list[Any]) -> None:
    (found,) = decode(message(event)).events
    assert isinstance(found, BlockStored)
    assert ["?" if one.parent_unsaid else one.parent_hash for one in found.contents] == parents


def test_unknown_event_types_are_counted_and_the_others_are_decoded() -> None:
    batch = decode(message({"type": "BlockMoved"}, ["BlockPinned", 3], removed([b"a"])))
    assert batch.num_unread == 2 and batch.events == [BlockRemoved([b"a"], "GPU")]


@pytest.mark.parametrize(
    "payload",
    [
        b"\xc1",
        msgspec.msgpack.encode(3),
        msgspec.msgpack.encode([1.0]),
        message(7),
        message({"type": "BlockStored", "block_hashes": None}),
        message(removed([1.5])),
        message({**stored([b"a"], [], 1), "token_ids": ["x"]}),
    ],
)
def test_unknown_event_forms_are_refused(payload: bytes) -> None:
    with pytest.raises(EventError) as refused:
        decode(payload)
    assert "\n" not in str(refused.value)


@given(st.binary(max_size=64))
def test_arbitrary_bytes_raise_only_event_errors(payload: bytes) -> None:
    with contextlib.suppress(EventError):
        decode(payload)
