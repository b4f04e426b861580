"""Number of threads of compiled forward passes on the CPU, which is reduced while other programs use the cores.

A parallel loop ends when its last thread does, and a pass has several loops per layer. If another program occupies a
thread's core, each loop waits for a time slice of the operating system, which takes a hundred times as long as the
loop. The thread that runs the pass waits in a spin loop (about 1 ms in GCC's OpenMP) and then sleeps, so its CPU time
falls behind wall time. Results do not depend on the number of threads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch

WINDOW = 0.1  # seconds of forward passes per decision
MIN_CPU_SHARE = 0.6  # CPU time over wall time of the thread that runs the passes; lower if there are too many threads
RETRIES = 2.0, 32.0  # initial and maximum seconds until more threads are tried; doubled after each failure
IS_PASSIVE = os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive"  # without a spin loop, CPU time is no measure


class ThreadCount:
    """Chooses the number of threads of each forward pass. Not thread-safe: one thread owns it."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._all = 0  # number of threads outside of forward passes
        self.count = self.reduced = 0  # threads of the next pass; those of the last pass if reduced, else 0
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
        """Record the wall time of a pass in seconds, and the CPU time of the thread that ran it."""
        self._wall += wall
        self._cpu += cpu
        if self._wall >= WINDOW and not IS_PASSIVE:
            self._decide(self._cpu < MIN_CPU_SHARE * self._wall, self._clock())
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
