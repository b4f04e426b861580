"""Cached contents after events that repeat a content or omit fields."""

from contextlib import nullcontext
from typing import Any

import pytest

from engine.observe.monitor import contents
from engine.observe.monitor.observed_log import ObservedLog, header_of
from engine.observe.monitor.sequence import Break, Message
from engine.trace.geometry import TraceStateError, geometry
from engine.trace.operations import Removed, Stored
from engine.trace.state import Block, OutsideBlock
from tests.unit.monitor.publisher import message, removed, stored


def known_after(*events: dict[str, Any]) -> tuple[set[bytes], ObservedLog]:
    """Return the hashes that the log's state has in the pool or outside it, and the log."""
    observed = ObservedLog(header_of(model="m", source="vLLM", block_size=2, num_blocks=8, events=["tcp://one:5557"]))
    observed.receive(0, Break("attached", 0))
    for number, event in enumerate(events):
        observed.receive(0, Message(number, message(event), False))
    state = observed.log.state_at(len(observed.log) - 1)
    places: list[Block | OutsideBlock] = [*state.blocks, *state.outside]
    found = {one for one in (block.block_hash for block in places) if one is not None}
    assert len(found) == len(observed.known(0).keys)
    return found, observed


def without(event: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in names}


A, B = stored([b"a"], [1, 2], 2), stored([b"b"], [3, 4], 2, b"a")
GROUPED = {**A, "group_idx": 0}


@pytest.mark.parametrize(
    ("store_fields", "remove_fields"),
    [
        (A, without(removed([b"a"]), "medium")),
        (without(A, "medium"), removed([b"a"])),
        (GROUPED, removed([b"a"])),
        (A, removed([b"a"], group_idx=0)),
        ({**A, "medium": "cpu"}, removed([b"a"], medium="CPU", group_idx=0)),
    ],
)
def test_missing_fields_mean_gpu_and_group_0(store_fields: dict[str, Any], remove_fields: dict[str, Any]) -> None:
    assert known_after(store_fields)[0] == {b"a"}
    found, observed = known_after(store_fields, remove_fields)
    last = observed.log.record(2).seen
    assert found == set() and last is not None and last.num_unmatched == 0


def test_a_content_in_two_blocks_is_cached_until_both_are_removed() -> None:
    """Two requests each compute an equal last block, and vLLM reports one store and one removal per block."""
    assert known_after(A, B, B, removed([b"b"]))[0] == {b"a", b"b"}
    found, observed = known_after(A, B, B, removed([b"b"]), removed([b"b"]))
    assert found == {b"a"}
    ops = [op for index in range(6) for op in observed.log.record(index).ops if isinstance(op, Removed)]
    assert [op.num_left for op in ops] == [1, 0]
    assert observed.known(0).num_in_pool == 1


def test_repeated_reports_of_hits_count_no_copies() -> None:
    """Given `kv_cache_report_mode` full, vLLM also reports the blocks that a prompt hits."""
    assert known_after(A, A, removed([b"a"]))[0] == set()


def test_stores_of_the_same_medium_are_distinguished_by_owner() -> None:
    first, second = [{**A, "medium": "STORAGE", "ownership": name, "locality": "REMOTE"} for name in ("fs", "obj")]
    removal = removed([b"a"], medium="STORAGE", ownership="fs")
    found, observed = known_after(first, second, removal)
    assert found == {b"a"} and observed.known(0).keys == {("STORAGE", "obj", 0, b"a")}
    [op] = observed.log.record(2).ops
    assert isinstance(op, Stored) and (op.tier, op.locality) == ("obj", "REMOTE")


def test_copies_are_forgotten_after_a_gap() -> None:
    _, observed = known_after(A, B, B)
    observed.receive(0, Break("gap", 9, 1))
    for number, event in enumerate([B, removed([b"b"])], 9):
        observed.receive(0, Message(number, message(event), False))
    assert observed.known(0).keys == set()


def test_contents_over_the_limit_are_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """More external contents than readers accept are omitted, so that the log stays readable."""
    monkeypatch.setattr(contents, "MAX_BLOCKS", 1)
    outside = [{**stored([one], [], 0), "medium": "CPU"} for one in (b"x", b"y")]
    found, observed = known_after(A, *outside, removed([b"x"], medium="CPU"), outside[1])
    assert found == {b"a", b"y"}
    problems = [seen.problem for index in range(6) if (seen := observed.log.record(index).seen) is not None]
    assert [bool(problem) for problem in problems] == [False, False, False, True, False, False]
    assert "1 content had no place" in problems[3]


@pytest.mark.parametrize(
    ("num_blocks", "ranks", "fits"), [(190_000, 4, True), (190_000, 5, False), (300_000, 1, False)]
)
def test_limits_of_blocks_apply_per_rank_and_in_total(num_blocks: int, ranks: int, fits: bool) -> None:
    header = header_of(model="m", source="v", block_size=16, num_blocks=num_blocks, events=["tcp://a:1"] * ranks)
    with nullcontext() if fits else pytest.raises(TraceStateError, match="block"):
        assert geometry(header).num_blocks == num_blocks * ranks
