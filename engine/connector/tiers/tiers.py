"""Tiers of a process, fastest first: the engines' lookups, loads and stores.

Write-through: a stored block goes to CPU and into the disk's queue, not to the disk on eviction from CPU. A killed
process (kill -9) loses only the queue, milliseconds of it; with write-back it would lose everything in CPU memory,
which a restart hopes to find. Eviction from CPU is also free, and never delays a request. The price is that every block
is written once, including those never loaded again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.connector.tiers.block_file import BadBlock
from engine.connector.tiers.books import Drop, TierCounters
from engine.connector.tiers.cpu_tier import CpuTier
from engine.connector.tiers.disk_tier import DiskTier
from engine.connector.tiers.keys import KEY_BYTES
from engine.connector.tiers.settings import DiskSetting
from engine.connector.tiers.speeds import Line, Measured, Speeds, line_through
from engine.connector.tiers.writer import QUEUE_BYTES, DiskWriter
from engine.trace.operations import Medium

CLOSE_SECONDS = 5.0
PROBE_BYTES = (16 * 2**10, 256 * 2**10)
PROBES = 3  # blocks of each size; the fastest counts: a pause of the machine is not the tier's


class Loaded(NamedTuple):
    """A block that was found."""

    payload: bytes
    tier: Medium
    seconds: float  # to read and check it
    queued: bool  # "disk" had it still in its queue, in memory: nothing was read
    promoted: bool  # it was put into CPU too


class Tiers:
    """CPU memory, a disk, or both, for all engines of a process, each on its own thread."""

    def __init__(
        self,
        cpu_bytes: int | None = None,
        disk: DiskSetting | None = None,
        queue_bytes: int = QUEUE_BYTES,
        speeds: Speeds | None = None,
    ) -> None:
        """Opens and measures: some milliseconds, unless another server is evicting from the folder just then.

        Raises:
            FolderError: the disk's folder cannot be used.
        """
        self.speeds = speeds or Speeds()
        self._cpu = CpuTier(cpu_bytes) if cpu_bytes is not None else None
        self._disk = DiskTier(*disk) if disk is not None else None
        if self._cpu is not None:
            self.speeds.opened("cpu", _measure_cpu(self._cpu.max_bytes))
        if self._disk is not None:
            self.speeds.opened("disk", _measure_disk(self._disk))
        self._writer = DiskWriter(self._disk, queue_bytes) if self._disk is not None else None
        self._closed = False

    def lookup(self, keys: Sequence[bytes]) -> list[Medium]:
        """Return the tier of each leading key that is stored. No payload is read.

        What another server evicts before it is loaded, and what turns out damaged, `load` does not find.
        """
        found = list[Medium]()
        while len(found) < len(keys) and not self._closed:
            key = keys[len(found)]
            if self._cpu is not None and key in self._cpu:
                found.append("cpu")
            elif self._writer is not None and key in self._writer:
                found.append("disk")
            elif self._disk is not None and (there := self._disk.has(keys[len(found) :])):
                run = keys[len(found) : len(found) + there]
                found += ["cpu" if self._cpu is not None and k in self._cpu else "disk" for k in run]
            else:
                break
        return found

    def load(self, key: bytes) -> Loaded | None:
        """Return the block from the fastest tier that has it undamaged, or None."""
        if self._closed:
            return None
        begin = time.perf_counter()
        if self._cpu is not None and (payload := self._cpu.load(key)) is not None:
            seconds = time.perf_counter() - begin
            self.speeds.note_load("cpu", len(payload), seconds)
            return Loaded(payload, "cpu", seconds, queued=False, promoted=False)
        if self._disk is None or self._writer is None:
            return None
        waiting = self._writer.get(key)
        payload = self._disk.load(key) if waiting is None else waiting
        if payload is None:
            return None
        seconds = time.perf_counter() - begin
        if waiting is None:
            self.speeds.note_load("disk", len(payload), seconds)
        promoted = self._cpu is not None and self._keep(key, payload)
        return Loaded(payload, "disk", seconds, queued=waiting is not None, promoted=promoted)

    def store(self, key: bytes, payload: bytes | bytearray | memoryview) -> list[Medium]:
        """Store a copy of the payload. Returns the tiers that have it; "disk": at least in its queue."""
        if self._closed:
            return []
        took = list[Medium]()
        copy: bytes | None = None
        if self._cpu is not None:
            if self._cpu.touch(key):
                took.append("cpu")
            else:
                copy = bytes(payload)
                took += ["cpu"] if self._keep(key, copy) else []
        if self._disk is not None and self._writer is not None:
            there = key in self._writer or self._disk.has([key])
            if there or self._writer.submit(key, bytes(payload) if copy is None else copy):
                took.append("disk")
        return took

    def _keep(self, key: bytes, payload: bytes) -> bool:
        assert self._cpu is not None
        self._cpu.store(key, payload)
        return key in self._cpu

    def figures(self) -> list[TierCounters]:
        """Return the counters of each tier, fastest first."""
        return [tier.figures() for tier in (self._cpu, self._disk) if tier is not None]

    def drops(self) -> list[Drop]:
        """Return the last ones of all tiers, oldest first; `TierCounters.drops` counts them all."""
        found = [drop for tier in (self._cpu, self._disk) if tier is not None for drop in tier.book.drops()]
        return sorted(found, key=lambda drop: drop.time)

    def flush(self, timeout: float = CLOSE_SECONDS) -> bool:
        """Wait until all that was stored is on the disk, or dropped; False: `timeout` seconds were not enough."""
        return self._writer is None or self._writer.flush(timeout)

    def close(self, timeout: float = CLOSE_SECONDS) -> int:
        """Write queued blocks within `timeout` seconds; return the number of unwritten ones. No block is found
        afterwards.

        A disk that hangs in the middle of a block is not waited for any longer than that.
        """
        self._closed = True
        if self._cpu is not None:
            self._cpu.clear()
        return self._writer.close(timeout) if self._writer is not None else 0


def _measure_cpu(max_bytes: int) -> Line | None:
    scratch = CpuTier(max_bytes)
    return _measure(scratch.store, scratch.load, max_bytes)


def _measure_disk(disk: DiskTier) -> Line | None:
    """Measure the disk with probe blocks, which are written, read, verified and deleted like real ones."""
    keys = list[bytes]()

    def write(key: bytes, payload: bytes) -> None:
        keys.append(key)
        disk.write(key, payload)

    try:
        # a sixteenth of the folder at most, so that next to nothing is evicted for it
        return _measure(write, disk.read, disk.max_bytes // (16 * PROBES))
    except (BadBlock, OSError):  # reported when a block is stored
        return None
    finally:
        disk.forget(keys)


def _measure(
    write: Callable[[bytes, bytes], object], read: Callable[[bytes], bytes | None], max_bytes: int
) -> Line | None:
    """Measure reading a block. None: no room for blocks of some size, or one was evicted at once."""
    if max_bytes < PROBE_BYTES[0]:
        return None
    best = list[Measured]()
    for size in (min(size, max_bytes // divisor) for size, divisor in zip(PROBE_BYTES, (16, 1), strict=True)):
        times = list[float]()
        for _ in range(PROBES):
            key = os.urandom(KEY_BYTES)
            write(key, os.urandom(size))
            begin = time.perf_counter()
            if read(key) is None:
                return None
            times.append(time.perf_counter() - begin)
        best.append(Measured(size, min(times)))
    small, large = best
    return line_through(small, large)
