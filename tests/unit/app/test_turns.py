"""Turns are handed on in the order in which they were asked for."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

from app.turns import Turns


def test_turns_come_in_the_order_of_asking():
    turns, order, threads = Turns(), [], []
    with turns:
        for i in range(5):

            def take(i: int = i) -> None:
                with turns:
                    order.append(i)

            threads.append(threading.Thread(target=take))
            threads[-1].start()
            while len(turns._waiting) <= i:  # it is waiting before the next one asks
                time.sleep(0.001)
    for thread in threads:
        thread.join(5)
    assert order == [0, 1, 2, 3, 4]


def test_one_that_asks_again_at_once_does_not_starve_another():
    turns, taken, both = Turns(), list[tuple[int, bool]](), threading.Barrier(2)

    def work(i: int) -> None:
        both.wait(5)
        while len(taken) < 100:
            with turns:
                time.sleep(0.001)
                taken.append((i, bool(turns._waiting)))  # whose turn it was, and whether the other waits for the next

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    handed = [(a, b) for (a, other_waits), (b, _) in pairwise(taken) if other_waits]
    assert handed and all(a != b for a, b in handed)


def test_who_waited_too_long_has_no_turn_and_stands_in_nobodys_way():
    turns = Turns()
    with turns:
        assert not turns.take(0.01)
    assert turns.take(0) and not turns.take(0)
    turns.leave()
    with turns:
        pass


def test_an_error_hands_the_turn_on():
    turns = Turns()
    for _ in range(2):
        try:
            with turns:
                raise KeyError
        except KeyError:
            pass
    with turns:
        pass
