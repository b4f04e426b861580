"""Number of threads of compiled forward passes on the CPU: fewer while other programs use its cores.

A parallel loop ends when its last thread does, and a pass has several loops a layer. Where another program has a
thread's core, each loop waits for a time slice of the operating system, a hundred times the work itself. The thread
that runs the pass spins for a moment (about 1 ms in GCC's OpenMP), then sleeps: its processor time falls behind the
clock. Results do not depend on the number of threads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch

WINDOW = 0.1  # seconds of forward passes for a decision
CROWDED = 0.6  # processor time over time of the thread that runs the passes; below it, they have too many threads
RETRIES = 2.0, 32.0  # seconds until more threads are tried again: at first, and at most; doubled after each failure
SLEEPS = os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive"  # threads sleep at once: nothing can be told


class ThreadCount:
    """Chooses the number of threads of each forward pass. Not thread-safe: one thread owns it."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._all = 0  # threads outside of forward passes
        self.count = self.reduced = 0  # of the next pass; of the last one, 0 if it had all
        self._wall = self._cpu = 0.0  # seconds of the passes since the last decision
        self._retry_after, self._retry_at, self._is_trial = RETRIES[0], 0.0, False

    def choose(self) -> int:
        """Return the number of threads for the next pass."""
        found = torch.get_num_threads()
        if found != self._all:
            self._all = self.count = found
        self.reduced = self.count if self.count < found else 0
        return self.count

    def note(self, wall: float, cpu: float) -> None:
        """Note the seconds of a pass, and the processor seconds of the thread that ran it."""
        self._wall += wall
        self._cpu += cpu
        if self._wall >= WINDOW and not SLEEPS:
            self._decide(self._cpu < CROWDED * self._wall, self._clock())
            self._wall = self._cpu = 0.0

    def _decide(self, crowded: bool, now: float) -> None:
        if crowded and self.count > 1:
            if self._is_trial:
                self._retry_after = min(2 * self._retry_after, RETRIES[1])
            self.count, self._is_trial = (self.count + 1) // 2, False
            self._retry_at = now + self._retry_after
        elif self.count == self._all:
            self._retry_after, self._is_trial = RETRIES[0], False
        elif not crowded and now >= self._retry_at:
            self.count, self._is_trial = min(2 * self.count, self._all), True
