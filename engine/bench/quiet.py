"""How much of the machine others use: any other busy program ruins timings, so a record says how quiet it was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

QUIET = 0.1  # of one CPU, used by others
PROBE_SECONDS = 0.5


class CpuTimes(NamedTuple):
    """CPU seconds spent so far."""

    machine: float
    own: float
    at: float  # wall clock


def cpu_times() -> CpuTimes | None:
    """None where the system does not tell."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, _steal = map(int, fields)
    own = os.times()
    used = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    return CpuTimes(used, own.user + own.system, time.perf_counter())


def busy_cpus(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """CPUs that others kept busy in between, on average: 0 is a quiet machine, 1 one CPU of however many."""
    if before is None or after is None or after.at <= before.at:
        return None
    others = (after.machine - before.machine) - (after.own - before.own)
    return round(max(0.0, others) / (after.at - before.at), 3)


def wait_until_quiet(seconds: float, cancelled: Callable[[], bool] = lambda: False) -> bool:
    """Wait at most so long until others use less than QUIET of a CPU. Whether it became quiet (or cannot be told)."""
    until = time.perf_counter() + seconds
    while True:
        before = cpu_times()
        time.sleep(PROBE_SECONDS)
        busy = busy_cpus(before, cpu_times())
        if busy is None or busy < QUIET:
            return True
        if time.perf_counter() >= until or cancelled():
            return False
