"""Memory and processors available to this process under Linux control groups (container, batch job, user session).

Version 2 has `memory.max` and `cpu.max`, version 1 `memory.limit_in_bytes` and `cpu.cfs_quota_us`. The limits of a
group's ancestors also apply, so the smallest limit is used. Other systems have no limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import psutil

from engine.system.host import processors

OWN = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")


class Memory(NamedTuple):
    """Memory in bytes."""

    available: int
    total: int


def memory() -> Memory:
    """Return the available and the total memory of this process: the machine's, or a smaller limit."""
    machine = psutil.virtual_memory()
    return Memory(*map(min, zip((machine.available, machine.total), *_memory_limits(), strict=True)))


def cores() -> int:
    """Return the number of processors available to this process."""
    return min([len(processors()), *(max(1, math.ceil(share)) for share in _cpu_limits())])


def _memory_limits() -> Iterator[Memory]:
    for folder in _folders("memory"):
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        if limit is None:
            continue
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes") or 0
        # inactive file pages are reclaimed on demand
        counted = dict(line.split() for line in _text(folder / "memory.stat").splitlines())
        cached = int(counted.get("total_inactive_file", counted.get("inactive_file", 0)))
        yield Memory(max(0, limit - used + cached), limit)


def _cpu_limits() -> Iterator[float]:
    """Yield CPU limits in processors, e.g. 1.5."""
    for folder in _folders("cpu"):
        words = _text(folder / "cpu.max").split() or [
            _text(folder / "cpu.cfs_quota_us").strip(),
            _text(folder / "cpu.cfs_period_us").strip(),
        ]
        if all(word.isdigit() for word in words):  # not "max", -1, or ""
            yield int(words[0]) / int(words[1])


def _folders(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's groups, innermost first."""
    for line in _text(OWN).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            base = ROOT / controller if controllers else ROOT
            inner = PurePosixPath(path.lstrip("/"))
            yield from (base / part for part in (inner, *inner.parents))


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""
