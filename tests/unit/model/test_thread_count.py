"""Number of threads of forward passes, which is reduced while other programs use the cores."""

from collections.abc import Iterator

import pytest
import torch

from engine.model import thread_count
from engine.model.thread_count import ThreadCount


class Passes:
    """Simulated forward passes, which are slow with more threads than `free` cores."""

    def __init__(self) -> None:
        self.now, self.free = 0.0, 8
        self.threads = ThreadCount(lambda: self.now)

    def run(self, seconds: float) -> list[int]:
        """Return the thread counts of the passes in order, without repetition."""
        end, found = self.now + seconds, list[int]()
        while self.now < end:
            count = self.threads.choose()
            assert count == (self.threads.reduced or 8)
            crowded = count > self.free
            wall = 0.2 if crowded else 0.01
            self.now += wall
            self.threads.note(wall, wall * (0.4 if crowded else 0.98))
            found += [count] if found[-1:] != [count] else []
        return found


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Passes]:
    monkeypatch.setattr(thread_count, "IS_PASSIVE", False)
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield Passes()
    torch.set_num_threads(before)


def test_all_threads_are_used_while_the_cores_are_free(passes: Passes) -> None:
    assert passes.run(10) == [8]


@pytest.mark.parametrize("free", [1, 3, 6])
def test_busy_cores_reduce_the_threads_with_rare_retries(passes: Passes, free: int) -> None:
    """Retries with more threads take less than 2 % of an hour."""
    passes.free = free
    passes.run(1)
    assert passes.threads.count == max(count for count in (1, 2, 4) if count <= free)
    passes.run(60)
    slow_seconds, begin = 0.0, passes.now
    while passes.now < begin + 3600:
        before = passes.now
        passes.run(0.001)
        slow_seconds += passes.now - before if passes.now - before > 0.1 else 0
    assert 0 < slow_seconds < 0.02 * 3600
    passes.free = 8
    assert passes.run(2 * thread_count.RETRIES[1])[-1] == 8
    passes.free = free
    passes.run(1)
    passes.free = 8
    assert passes.run(2 * thread_count.RETRIES[0])[-1] == 8  # the first retry comes early again


def test_the_thread_count_stays_if_idle_threads_sleep(passes: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_count, "IS_PASSIVE", True)
    passes.free = 1
    assert passes.run(10) == [8]
