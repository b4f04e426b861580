"""Blocks in CPU memory: a dictionary bounded in bytes, which evicts the least recently used block first."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from engine.connector.tiers.books import TierBook, TierCounters


class CpuTier:
    """Payloads by key, for any number of threads.

    What is bounded is the payloads' bytes; the dictionary takes some 160 bytes a block beside them (measured).
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.book = TierBook("cpu")
        self._blocks: OrderedDict[bytes, bytes] = OrderedDict()  # least recently used first
        self._bytes = 0
        self._lock = threading.Lock()

    def __contains__(self, key: bytes) -> bool:
        """Return whether the block is stored; does not count as a use."""
        return key in self._blocks

    def load(self, key: bytes) -> bytes | None:
        """Return the payload, from now on the most recently used; the very object, not a copy."""
        begin = time.perf_counter()
        with self._lock:
            payload = self._blocks.get(key)
            if payload is not None:
                self._blocks.move_to_end(key)
        if payload is None:
            self.book.miss()
            return None
        self.book.hit(len(payload), time.perf_counter() - begin)
        return payload

    def store(self, key: bytes, payload: bytes) -> list[bytes]:
        """Store a block as the most recently used one. Returns the evicted keys. Too large a block is dropped."""
        begin = time.perf_counter()
        if len(payload) > self.max_bytes:
            self.book.drop("too_large", key, f"{len(payload)} bytes")
            return []
        evicted = list[bytes]()
        with self._lock:
            self._bytes += len(payload) - len(self._blocks.pop(key, b""))
            self._blocks[key] = payload
            while self._bytes > self.max_bytes:
                old, gone = self._blocks.popitem(last=False)
                self._bytes -= len(gone)
                evicted.append(old)
        self.book.evicted(len(evicted))
        self.book.stored(len(payload), time.perf_counter() - begin)
        return evicted

    def touch(self, key: bytes) -> bool:
        """Mark a block as the most recently used one. Returns False if it is not stored."""
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return True
        return False

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._blocks.clear()
            self._bytes = 0

    def figures(self) -> TierCounters:
        with self._lock:
            blocks, num_bytes = len(self._blocks), self._bytes
        return self.book.figures(blocks, num_bytes, self.max_bytes)
