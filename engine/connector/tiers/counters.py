"""Counters of a tier and its dropped blocks, for metrics and the page."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Literal, NamedTuple

from engine.trace.operations import Medium

DropReason = Literal[
    # a stored block is not usable
    "truncated",  # it has fewer or more bytes than its header says
    "checksum",  # the payload is damaged
    "bad_header",  # it is not a block file, has another version, or its header is damaged
    "wrong_key",  # it is an undamaged block under another block's name
    "not_a_file",  # its name is that of a link, folder, pipe or device
    "foreign",  # another user owns it or can write it
    "unreadable",  # a read failed
    # a block could not be stored
    "disk_full",  # no space, a quota, or a limit on the size of files
    "no_permission",
    "folder_gone",
    "io_error",  # any other error of the system
    "too_large",  # the block exceeds the size of the tier
    "queue_full",  # the disk is slower than the stores
    "busy",  # another server held the folder's lock
    "closed",  # the server stopped before the block was written
]

MAX_DROPS = 64  # remembered drops


class Drop(NamedTuple):
    """Dropped block."""

    number: int  # number of the drop in its tier, from 1
    tier: Medium
    reason: DropReason
    key: str  # hexadecimal
    detail: str  # message of the system, or ""
    time: float  # seconds since the epoch


class TierCounters(NamedTuple):
    """Counters of a tier since it was opened."""

    tier: Medium
    blocks: int  # for a shared folder: the last count
    bytes: int  # used bytes of `max_bytes`
    max_bytes: int
    hits: int  # loads that returned a block
    misses: int  # loads that returned none
    stores: int
    evictions: int  # by this process
    drops: dict[DropReason, int]
    loaded_bytes: int  # bytes of payloads
    load_seconds: float  # duration of the hits
    stored_bytes: int
    store_seconds: float


class TierStats:
    """Counters of one tier. Thread-safe."""

    def __init__(self, tier: Medium, clock: Callable[[], float] = time.time) -> None:
        self.tier = tier
        self._clock = clock
        self._lock = threading.Lock()
        self._hits = self._misses = self._stores = self._evictions = 0
        self._loaded_bytes = self._stored_bytes = 0
        self._load_seconds = self._store_seconds = 0.0
        self._reasons: Counter[DropReason] = Counter()
        self._drops: deque[Drop] = deque(maxlen=MAX_DROPS)

    def hit(self, num_bytes: int, seconds: float) -> None:
        with self._lock:
            self._hits += 1
            self._loaded_bytes += num_bytes
            self._load_seconds += seconds

    def miss(self) -> None:
        with self._lock:
            self._misses += 1

    def stored(self, num_bytes: int, seconds: float) -> None:
        with self._lock:
            self._stores += 1
            self._stored_bytes += num_bytes
            self._store_seconds += seconds

    def evicted(self, num_blocks: int) -> None:
        with self._lock:
            self._evictions += num_blocks

    def drop(self, reason: DropReason, key: bytes, detail: str = "") -> None:
        with self._lock:
            self._reasons[reason] += 1
            number = self._reasons.total()
            self._drops.append(Drop(number, self.tier, reason, key.hex(), detail, self._clock()))

    def drops(self) -> list[Drop]:
        """Return the last MAX_DROPS drops, oldest first."""
        with self._lock:
            return list(self._drops)

    def figures(self, blocks: int, num_bytes: int, max_bytes: int) -> TierCounters:
        with self._lock:
            return TierCounters(
                tier=self.tier,
                blocks=blocks,
                bytes=num_bytes,
                max_bytes=max_bytes,
                hits=self._hits,
                misses=self._misses,
                stores=self._stores,
                evictions=self._evictions,
                drops=dict(self._reasons),
                loaded_bytes=self._loaded_bytes,
                load_seconds=self._load_seconds,
                stored_bytes=self._stored_bytes,
                store_seconds=self._store_seconds,
            )
