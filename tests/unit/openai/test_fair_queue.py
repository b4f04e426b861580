"""Fair queue: turns of clients, priorities, and limits."""

import pytest

from app.openai.fair_queue import FairQueue, Full


def drain(queue: FairQueue[str]) -> list[str]:
    return [queue.take() for _ in range(len(queue))]


def test_a_thousand_requests_of_one_client_do_not_delay_another_client() -> None:
    queue: FairQueue[str] = FairQueue(2000)
    for number in range(1000):
        queue.put("greedy", f"g{number}", 1000)
    queue.put("modest", "m", 1000)
    assert [queue.take() for _ in range(3)] == ["g0", "m", "g1"]
    assert queue.waiting() == {"greedy": 998}


def test_clients_take_turns_and_each_keeps_its_order() -> None:
    queue: FairQueue[str] = FairQueue(10)
    for client, item in [("a", "a0"), ("a", "a1"), ("b", "b0"), ("c", "c0"), ("b", "b1")]:
        queue.put(client, item, 10)
    assert drain(queue) == ["a0", "b0", "c0", "a1", "b1"]
    with pytest.raises(IndexError):
        queue.take()


def test_a_clients_requests_are_ordered_by_priority_and_arrival() -> None:
    queue: FairQueue[str] = FairQueue(10)
    for item, priority in [("late", 5), ("first", -1), ("second", -1), ("usual", 0)]:
        queue.put("a", item, 10, priority)
    assert drain(queue) == ["first", "second", "usual", "late"]


def test_limits_apply_per_client_and_to_the_whole_queue() -> None:
    queue: FairQueue[str] = FairQueue(3)
    queue.put("a", "a0", 2)
    queue.put("a", "a1", 2)
    with pytest.raises(Full, match="2 requests of this client are waiting"):
        queue.put("a", "a2", 2)
    queue.put("b", "b0", 2)
    with pytest.raises(Full, match="at most 3"):
        queue.put("b", "b1", 2)
    assert queue.waiting() == {"a": 2, "b": 1} and len(queue) == 3


def test_removed_items_do_not_count() -> None:
    queue: FairQueue[str] = FairQueue(10)
    first, second = "x", "y"
    queue.put("a", first, 10)
    queue.put("a", second, 10)
    assert queue.remove("a", first) and not queue.remove("a", first) and not queue.remove("b", second)
    assert queue.remove("a", second) and queue.waiting() == {} and len(queue) == 0
    queue.put("b", "z", 10)
    assert queue.clear() == ["z"] and len(queue) == 0
