"""Turns are granted in the order of the requests."""

import threading
import time
from itertools import pairwise

import pytest

from app.session.engine_lock import LABS_SHARE, EngineLock


def test_turns_come_in_the_order_of_asking():
    turns, order, threads = EngineLock(), [], []
    with turns:
        for i in range(5):

            def take(i: int = i) -> None:
                with turns:
                    order.append(i)

            threads.append(threading.Thread(target=take))
            threads[-1].start()
            while turns.waiting <= i:  # it is waiting before the next one asks
                time.sleep(0.001)
    for thread in threads:
        thread.join(5)
    assert order == [0, 1, 2, 3, 4]


def test_one_that_asks_again_at_once_does_not_starve_another():
    turns, taken, both = EngineLock(), list[tuple[int, bool]](), threading.Barrier(2)

    def work(i: int) -> None:
        both.wait(5)
        while len(taken) < 100:
            with turns:
                time.sleep(0.001)
                taken.append((i, bool(turns.waiting)))  # whose turn it was, and whether the other waits for the next

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    handed = [(a, b) for (a, other_waits), (b, _) in pairwise(taken) if other_waits]
    assert handed and all(a != b for a, b in handed)


def test_who_waited_too_long_has_no_turn_and_stands_in_nobodys_way():
    turns = EngineLock()
    with turns:
        assert not turns.take(0.01)
    assert turns.take(0) and not turns.take(0)
    turns.leave()
    with turns:
        pass


def test_an_error_hands_the_turn_on():
    turns = EngineLock()
    for _ in range(2):
        try:
            with turns:
                raise KeyError
        except KeyError:
            pass
    with turns:
        pass


def test_a_step_waits_for_one_lab_at_most_however_many_there_are():
    turns, over = EngineLock(), threading.Event()
    taken: list[str] = []

    def lab() -> None:
        while not over.is_set():
            with turns.labs:
                time.sleep(0.001)
                taken.append("lab")

    labs = [threading.Thread(target=lab) for _ in range(12)]
    for thread in labs:
        thread.start()
    try:
        while not taken:
            time.sleep(0.001)
        for _ in range(40):
            before = len(taken)
            with turns:  # a lab's turn may end while this one begins to stand in line, and it stands behind the next
                assert len(taken) - before <= 2
                assert turns.waiting <= 1  # a single lab stands in everybody's line
    finally:
        over.set()
        for thread in labs:
            thread.join(20)


def test_labs_leave_others_their_share_of_the_time():
    """Beside one that computes without a pause they have a sixth of the time; alone they have all of it."""
    turns, over = EngineLock(), threading.Event()
    spent = [0.0] * 4

    def lab(i: int) -> None:
        while not over.is_set():
            with turns.labs:
                began = time.monotonic()
                time.sleep(0.002)
                spent[i] += time.monotonic() - began

    labs = [threading.Thread(target=lab, args=(i,)) for i in range(len(spent))]
    for thread in labs:
        thread.start()
    began = time.monotonic()
    while time.monotonic() < began + 0.5:
        with turns:
            time.sleep(0.002)
    share = sum(spent) / (time.monotonic() - began)
    over.set()
    for thread in labs:
        thread.join(20)
    assert 0 < share <= LABS_SHARE * 1.1
    assert all(spent)


def test_labs_alone_are_not_held_back(monkeypatch: pytest.MonkeyPatch):
    """Without others there is no pause; after another thread's turn there is."""
    turns, pauses = EngineLock(), list[float]()
    monkeypatch.setattr(time, "sleep", pauses.append)

    def labs() -> None:
        for _ in range(5):
            with turns.labs:
                threading.Event().wait(0.02)

    labs()
    assert pauses == []
    with turns:
        pass
    labs()
    assert pauses
