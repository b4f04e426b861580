"""Fairness of the engine lock among runs and labs."""

import random
import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest

from app.session.engine_lock import LABS_SHARE, EngineLock


def test_the_engine_lock_is_granted_in_the_order_of_requests():
    lock, order, threads = EngineLock(), [], []
    with lock:
        for i in range(5):

            def take(i: int = i) -> None:
                with lock:
                    order.append(i)

            threads.append(threading.Thread(target=take))
            threads[-1].start()
            while lock.waiting <= i:  # until the thread waits
                time.sleep(0.001)
    for thread in threads:
        thread.join(5)
    assert order == [0, 1, 2, 3, 4]


def test_two_threads_alternate_while_both_wait():
    lock, granted, both = EngineLock(), list[tuple[int, bool]](), threading.Barrier(2)

    def work(i: int) -> None:
        both.wait(5)
        while len(granted) < 100:
            with lock:
                time.sleep(0.001)
                granted.append((i, bool(lock.waiting)))  # the holder, and whether the other thread waits

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    handed = [(a, b) for (a, other_waits), (b, _) in pairwise(granted) if other_waits]
    assert handed and all(a != b for a, b in handed)


def test_a_timed_out_request_leaves_the_queue():
    lock = EngineLock()
    with lock:
        assert not lock.acquire(0.01)
    assert lock.acquire(0) and not lock.acquire(0)
    lock.release()
    with lock:
        pass


def test_an_error_releases_the_engine_lock():
    lock = EngineLock()
    for _ in range(2):
        try:
            with lock:
                raise KeyError
        except KeyError:
            pass
    with lock:
        pass


def test_a_step_waits_for_at_most_one_lab():
    lock, over = EngineLock(), threading.Event()
    granted: list[str] = []

    def lab() -> None:
        while not over.is_set():
            with lock.labs:
                time.sleep(0.001)
                granted.append("lab")

    labs = [threading.Thread(target=lab) for _ in range(12)]
    for thread in labs:
        thread.start()
    try:
        while not granted:
            time.sleep(0.001)
        for _ in range(40):
            before = len(granted)
            with lock:  # one lab may finish while this thread enqueues, and another may be ahead of it
                assert len(granted) - before <= 2
                assert lock.waiting <= 1  # only one lab at a time enters the queue
    finally:
        over.set()
        for thread in labs:
            thread.join(20)


def test_labs_use_at_most_their_share_of_the_time(monkeypatch: pytest.MonkeyPatch):
    """Labs get a sixth of the time while a run computes without a pause, and all of it otherwise."""
    now, rng, spent = [100.0], random.Random(3), 0.0

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=pass_time)
    monkeypatch.setattr("app.session.engine_lock.time", clock)
    lock = EngineLock()
    for _ in range(5):
        with lock.labs:
            pass_time(0.02)
    assert now[0] == pytest.approx(100.1), "labs without a competing run do not pause"
    began = now[0]
    for _ in range(200):
        with lock:
            pass_time(rng.random() / 100)
        with lock.labs:
            pass_time(seconds := rng.random() / 100)
        spent += seconds
    assert 0.5 * LABS_SHARE < spent / (now[0] - began) <= LABS_SHARE * 1.01  # the last turn has no pause after it
