"""Tiers of a process: lookups, loads and stores of its engines.

Stores are write-through: a block is stored in CPU memory and queued for the disk. A process that is killed (kill -9)
loses only the queue, which is a few milliseconds of stores. With write-back it would lose all blocks in CPU memory,
which are needed after a restart. Evictions from CPU memory also need no write, so they do not delay a request. The
cost is that every block is written once, even if it is never loaded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.connector.tiers.block_file import BadBlock
from engine.connector.tiers.counters import Drop, TierCounters
from engine.connector.tiers.cpu_tier import CpuTier
from engine.connector.tiers.disk_tier import DiskTier
from engine.connector.tiers.keys import KEY_BYTES
from engine.connector.tiers.settings import DiskSetting
from engine.connector.tiers.speeds import Line, Measured, Speeds, line_through
from engine.connector.tiers.writer import QUEUE_BYTES, DiskWriter
from engine.trace.operations import Medium

CLOSE_SECONDS = 5.0
PROBE_BYTES = (16 * 2**10, 256 * 2**10)
PROBES = 3  # blocks of each size; the fastest one is used, because others may be delayed by other programs


class Loaded(NamedTuple):
    """Loaded block."""

    payload: bytes
    tier: Medium
    seconds: float  # time to read and verify it
    queued: bool  # it was still in the queue of the disk tier, so no file was read
    promoted: bool  # it was also stored in the CPU tier


class Tiers:
    """CPU tier, disk tier, or both, for all engines of a process. Thread-safe."""

    def __init__(
        self,
        cpu_bytes: int | None = None,
        disk: DiskSetting | None = None,
        queue_bytes: int = QUEUE_BYTES,
        speeds: Speeds | None = None,
    ) -> None:
        """Open the tiers and measure them, which takes milliseconds unless another server is evicting from the folder.

        Raises:
            FolderError: the folder of the disk tier cannot be used.
        """
        self.speeds = speeds or Speeds()
        self._cpu = CpuTier(cpu_bytes) if cpu_bytes is not None else None
        self._disk = DiskTier(*disk) if disk is not None else None
        if self._cpu is not None:
            self.speeds.add_tier("cpu", _measure_cpu(self._cpu.max_bytes))
        if self._disk is not None:
            self.speeds.add_tier("disk", _measure_disk(self._disk))
        self._writer = DiskWriter(self._disk, queue_bytes) if self._disk is not None else None
        self._closed = False

    def lookup(self, keys: Sequence[bytes]) -> list[Medium]:
        """Return the tier of each leading key that is stored. No payload is read.

        `load` may still miss such a block, if it is damaged or another server evicts it first.
        """
        found = list[Medium]()
        while len(found) < len(keys) and not self._closed:
            key = keys[len(found)]
            if self._cpu is not None and key in self._cpu:
                found.append("cpu")
            elif self._writer is not None and key in self._writer:
                found.append("disk")
            elif self._disk is not None and (count := self._disk.has(keys[len(found) :])):
                on_disk = keys[len(found) : len(found) + count]
                found += ["cpu" if self._cpu is not None and k in self._cpu else "disk" for k in on_disk]
            else:
                break
        return found

    def load(self, key: bytes) -> Loaded | None:
        """Return the block from the fastest tier that has it, or None. A damaged block is not returned."""
        if self._closed:
            return None
        begin = time.perf_counter()
        if self._cpu is not None and (payload := self._cpu.load(key)) is not None:
            seconds = time.perf_counter() - begin
            self.speeds.note_load("cpu", len(payload), seconds)
            return Loaded(payload, "cpu", seconds, queued=False, promoted=False)
        if self._disk is None or self._writer is None:
            return None
        queued = self._writer.get(key)
        payload = self._disk.load(key) if queued is None else queued
        if payload is None:
            return None
        seconds = time.perf_counter() - begin
        if queued is None:
            self.speeds.note_load("disk", len(payload), seconds)
        promoted = self._cpu is not None and self._store_in_cpu(key, payload)
        return Loaded(payload, "disk", seconds, queued=queued is not None, promoted=promoted)

    def store(self, key: bytes, payload: bytes | bytearray | memoryview) -> list[Medium]:
        """Store a copy of the payload. Returns the tiers that have it, the disk tier at least in its queue."""
        if self._closed:
            return []
        media = list[Medium]()
        copy: bytes | None = None
        if self._cpu is not None:
            if self._cpu.touch(key):
                media.append("cpu")
            else:
                copy = bytes(payload)
                media += ["cpu"] if self._store_in_cpu(key, copy) else []
        if self._disk is not None and self._writer is not None:
            is_stored = key in self._writer or self._disk.has([key])
            if is_stored or self._writer.submit(key, bytes(payload) if copy is None else copy):
                media.append("disk")
        return media

    def _store_in_cpu(self, key: bytes, payload: bytes) -> bool:
        assert self._cpu is not None
        self._cpu.store(key, payload)
        return key in self._cpu

    def figures(self) -> list[TierCounters]:
        """Return the counters of each tier, fastest first."""
        return [tier.figures() for tier in (self._cpu, self._disk) if tier is not None]

    def drops(self) -> list[Drop]:
        """Return the last drops of all tiers, oldest first. `TierCounters.drops` counts all drops."""
        found = [drop for tier in (self._cpu, self._disk) if tier is not None for drop in tier.stats.drops()]
        return sorted(found, key=lambda drop: drop.time)

    def flush(self, timeout: float = CLOSE_SECONDS) -> bool:
        """Wait until all stored blocks are on the disk or dropped. Returns False after `timeout` seconds."""
        return self._writer is None or self._writer.flush(timeout)

    def close(self, timeout: float = CLOSE_SECONDS) -> int:
        """Write the queued blocks, for at most `timeout` seconds. Returns the number of unwritten blocks.

        Lookups and loads find no block afterwards.
        """
        self._closed = True
        if self._cpu is not None:
            self._cpu.clear()
        return self._writer.close(timeout) if self._writer is not None else 0


def _measure_cpu(max_bytes: int) -> Line | None:
    scratch = CpuTier(max_bytes)
    return _measure(scratch.store, scratch.load, max_bytes)


def _measure_disk(disk: DiskTier) -> Line | None:
    """Measure the disk with probe blocks, which are written, read, verified and deleted."""
    keys = list[bytes]()

    def write(key: bytes, payload: bytes) -> None:
        keys.append(key)
        disk.write(key, payload)

    try:
        # the probes use at most a sixteenth of the folder, so that they evict few blocks
        return _measure(write, disk.read, disk.max_bytes // (16 * PROBES))
    except (BadBlock, OSError):  # will be reported when a block is stored
        return None
    finally:
        disk.delete(keys)


def _measure(
    write: Callable[[bytes, bytes], object], read: Callable[[bytes], bytes | None], max_bytes: int
) -> Line | None:
    """Measure the time to read blocks. Returns None if a size does not fit, or a block was evicted before its read."""
    if max_bytes < PROBE_BYTES[0]:
        return None
    fastest = list[Measured]()
    for size in (min(size, max_bytes // divisor) for size, divisor in zip(PROBE_BYTES, (16, 1), strict=True)):
        times = list[float]()
        for _ in range(PROBES):
            key = os.urandom(KEY_BYTES)
            write(key, os.urandom(size))
            begin = time.perf_counter()
            if read(key) is None:
                return None
            times.append(time.perf_counter() - begin)
        fastest.append(Measured(size, min(times)))
    small, large = fastest
    return line_through(small, large)
