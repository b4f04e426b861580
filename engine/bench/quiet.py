"""CPU use of other programs: it disturbs timings, so records state it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

QUIET = 0.1  # maximum CPUs used by other programs on a quiet machine
PROBE_SECONDS = 0.5


class CpuTimes(NamedTuple):
    """CPU seconds so far."""

    machine: float
    own: float  # of this process and its descendants
    at: float  # wall clock


def cpu_times() -> CpuTimes | None:
    """Return the CPU times, or None if the system lacks them."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, _steal = map(int, fields)
    tick = os.sysconf("SC_CLK_TCK")
    used = (user + nice + system + irq + softirq) / tick
    return CpuTimes(used, _own_ticks() / tick, time.perf_counter())


def _own_ticks() -> int:
    """Return the CPU ticks of this process and its descendants; ended ones count in the parent that reaped them."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # the process may have ended meanwhile
            fields = (folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            parents[int(folder.name)], ticks[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    own, found = {os.getpid()}, {os.getpid()}
    while found:
        found = {pid for pid, parent in parents.items() if parent in found}
        own |= found
    return sum(ticks.get(pid, 0) for pid in own)


def busy_cpus(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Return the average number of CPUs used by other programs between two readings."""
    if before is None or after is None or after.at <= before.at:
        return None
    others = (after.machine - before.machine) - (after.own - before.own)
    return round(max(0.0, others) / (after.at - before.at), 3)


def wait_until_quiet(seconds: float, cancelled: Callable[[], bool] = lambda: False) -> bool:
    """Wait up to `seconds` until other programs use less than QUIET CPUs. Return whether they do; True if unknown."""
    until = time.perf_counter() + seconds
    while True:
        before = cpu_times()
        time.sleep(PROBE_SECONDS)
        busy = busy_cpus(before, cpu_times())
        if busy is None or busy < QUIET:
            return True
        if time.perf_counter() >= until or cancelled():
            return False
