"""Turns are granted in the order of the requests."""

import random
import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest

from app.session.engine_lock import LABS_SHARE, EngineLock


def test_turns_come_in_the_order_of_asking():
    lock, order, threads = EngineLock(), [], []
    with lock:
        for i in range(5):

            def take(i: int = i) -> None:
                with lock:
                    order.append(i)

            threads.append(threading.Thread(target=take))
            threads[-1].start()
            while lock.waiting <= i:  # it is waiting before the next one asks
                time.sleep(0.001)
    for thread in threads:
        thread.join(5)
    assert order == [0, 1, 2, 3, 4]


def test_the_engine_lock_is_fair():
    lock, taken, both = EngineLock(), list[tuple[int, bool]](), threading.Barrier(2)

    def work(i: int) -> None:
        both.wait(5)
        while len(taken) < 100:
            with lock:
                time.sleep(0.001)
                taken.append((i, bool(lock.waiting)))  # whose turn it was, and whether the other waits for the next

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    handed = [(a, b) for (a, other_waits), (b, _) in pairwise(taken) if other_waits]
    assert handed and all(a != b for a, b in handed)


def test_a_thread_that_waited_too_long_gets_no_turn_and_blocks_no_other():
    lock = EngineLock()
    with lock:
        assert not lock.acquire(0.01)
    assert lock.acquire(0) and not lock.acquire(0)
    lock.release()
    with lock:
        pass


def test_an_error_hands_the_turn_on():
    lock = EngineLock()
    for _ in range(2):
        try:
            with lock:
                raise KeyError
        except KeyError:
            pass
    with lock:
        pass


def test_a_step_waits_for_one_lab_at_most_however_many_there_are():
    lock, over = EngineLock(), threading.Event()
    taken: list[str] = []

    def lab() -> None:
        while not over.is_set():
            with lock.labs:
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
            with lock:  # a lab's turn may end while this one begins to stand in line, and it stands behind the next
                assert len(taken) - before <= 2
                assert lock.waiting <= 1  # a single lab stands in everybody's line
    finally:
        over.set()
        for thread in labs:
            thread.join(20)


def test_labs_leave_others_their_share_of_the_time(monkeypatch: pytest.MonkeyPatch):
    """Labs get a sixth of the time beside a run that computes without a pause, and all of it alone."""
    now, rng, spent = [100.0], random.Random(3), 0.0

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=pass_time)
    monkeypatch.setattr("app.session.engine_lock.time", clock)
    lock = EngineLock()
    for _ in range(5):
        with lock.labs:
            pass_time(0.02)
    assert now[0] == pytest.approx(100.1), "alone they do not pause"
    began = now[0]
    for _ in range(200):
        with lock:
            pass_time(rng.random() / 100)
        with lock.labs:
            pass_time(seconds := rng.random() / 100)
        spent += seconds
    assert 0.5 * LABS_SHARE < spent / (now[0] - began) <= LABS_SHARE * 1.01  # no pause is counted after the last
