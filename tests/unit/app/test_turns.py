"""Turns are handed on in the order in which they were asked for."""

from __future__ import annotations

import threading
import time

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
            time.sleep(0.02)  # it is waiting before the next one asks
    for thread in threads:
        thread.join(5)
    assert order == [0, 1, 2, 3, 4]


def test_one_that_asks_again_at_once_does_not_starve_another():
    turns, counts, end = Turns(), [0, 0], time.monotonic() + 0.2

    def work(i: int) -> None:
        while time.monotonic() < end:
            with turns:
                counts[i] += 1
                time.sleep(0.001)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert min(counts) > 0 and max(counts) <= 2 * min(counts) + 2


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
