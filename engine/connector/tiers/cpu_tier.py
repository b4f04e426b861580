"""CPU tier: a dictionary of blocks with a maximum size, which evicts the least recently used blocks."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from engine.connector.tiers.counters import TierCounters, TierStats


class CpuTier:
    """Payloads by key. Any number of threads may use it.

    `max_bytes` limits the bytes of the payloads. The dictionary uses about 160 further bytes per block (measured).
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.stats = TierStats("cpu")
        self._blocks: OrderedDict[bytes, bytes] = OrderedDict()  # least recently used first
        self._bytes = 0
        self._lock = threading.Lock()

    def __contains__(self, key: bytes) -> bool:
        """Return whether the block is stored. Does not count as a use."""
        return key in self._blocks

    def load(self, key: bytes) -> bytes | None:
        """Return the payload (not a copy), and mark it as the most recently used one."""
        begin = time.perf_counter()
        with self._lock:
            payload = self._blocks.get(key)
            if payload is not None:
                self._blocks.move_to_end(key)
        if payload is None:
            self.stats.miss()
            return None
        self.stats.hit(len(payload), time.perf_counter() - begin)
        return payload

    def store(self, key: bytes, payload: bytes) -> list[bytes]:
        """Store a block as the most recently used one, or drop it if it is too large. Returns the evicted keys."""
        begin = time.perf_counter()
        if len(payload) > self.max_bytes:
            self.stats.drop("too_large", key, f"{len(payload)} bytes")
            return []
        evicted = list[bytes]()
        with self._lock:
            self._bytes += len(payload) - len(self._blocks.pop(key, b""))
            self._blocks[key] = payload
            while self._bytes > self.max_bytes:
                oldest, removed = self._blocks.popitem(last=False)
                self._bytes -= len(removed)
                evicted.append(oldest)
        self.stats.evicted(len(evicted))
        self.stats.stored(len(payload), time.perf_counter() - begin)
        return evicted

    def touch(self, key: bytes) -> bool:
        """Mark a block as the most recently used one. Returns False if it is not stored."""
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return True
        return False

    def clear(self) -> None:
        """Delete all blocks."""
        with self._lock:
            self._blocks.clear()
            self._bytes = 0

    def figures(self) -> TierCounters:
        with self._lock:
            blocks, num_bytes = len(self._blocks), self._bytes
        return self.stats.figures(blocks, num_bytes, self.max_bytes)
