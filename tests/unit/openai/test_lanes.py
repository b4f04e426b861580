"""Whose turn it is: the arithmetic of lanes."""

import pytest

from app.openai.fair_queue import Full, Lanes


def drained(lanes: Lanes[str]) -> list[str]:
    return [lanes.take() for _ in range(len(lanes))]


def test_a_thousand_of_one_client_stand_behind_the_single_one_of_another() -> None:
    lanes: Lanes[str] = Lanes(2000)
    for number in range(1000):
        lanes.put("greedy", f"g{number}", 1000)
    lanes.put("modest", "m", 1000)
    assert [lanes.take() for _ in range(3)] == ["g0", "m", "g1"]
    assert lanes.waiting() == {"greedy": 998}


def test_lanes_take_turns_and_a_lane_keeps_its_order() -> None:
    lanes: Lanes[str] = Lanes(10)
    for client, item in [("a", "a0"), ("a", "a1"), ("b", "b0"), ("c", "c0"), ("b", "b1")]:
        lanes.put(client, item, 10)
    assert drained(lanes) == ["a0", "b0", "c0", "a1", "b1"]
    with pytest.raises(IndexError):
        lanes.take()


def test_in_a_lane_the_lowest_priority_goes_first_and_of_equals_who_came_first() -> None:
    lanes: Lanes[str] = Lanes(10)
    for item, priority in [("late", 5), ("first", -1), ("second", -1), ("usual", 0)]:
        lanes.put("a", item, 10, priority)
    assert drained(lanes) == ["first", "second", "usual", "late"]


def test_a_full_lane_refuses_its_client_alone_and_full_lanes_everybody() -> None:
    lanes: Lanes[str] = Lanes(3)
    lanes.put("a", "a0", 2)
    lanes.put("a", "a1", 2)
    with pytest.raises(Full, match="2 requests of this client wait already"):
        lanes.put("a", "a2", 2)
    lanes.put("b", "b0", 2)
    with pytest.raises(Full, match="no more than 3"):
        lanes.put("b", "b1", 2)
    assert lanes.waiting() == {"a": 2, "b": 1} and len(lanes) == 3


def test_who_leaves_leaves_no_trace() -> None:
    lanes: Lanes[str] = Lanes(10)
    first, second = "x", "y"
    lanes.put("a", first, 10)
    lanes.put("a", second, 10)
    assert lanes.remove("a", first) and not lanes.remove("a", first) and not lanes.remove("b", second)
    assert lanes.remove("a", second) and lanes.waiting() == {} and len(lanes) == 0
    lanes.put("b", "z", 10)
    assert lanes.clear() == ["z"] and len(lanes) == 0
