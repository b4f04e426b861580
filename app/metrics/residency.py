"""Lifetimes of blocks in seconds; the operation `evict` has them in steps only.

The time of an allocation, hit or eviction is the end of its record (`timing.at`), so blocks age while a run is paused,
as on an idle server.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

MAX_HITS = 4  # hits per block, as in vLLM and the engine (engine/cache/block_pool.py)


class Residence(NamedTuple):
    """Times of an evicted block in seconds, as in vLLM."""

    lifetime: float  # since the allocation
    idle: float  # since the last hit, or since the allocation without hits
    reuse_gaps: list[float]  # between successive hits


class Residencies:
    """Times of allocation and last hits of each block of a run. Bounded by the pool."""

    def __init__(self) -> None:
        self._allocated: dict[int, float] = {}
        self._hits: dict[int, list[float]] = {}

    def allocate(self, block_id: int, at: float) -> None:
        """Record an allocation. Forgets earlier hits, which were of other content."""
        self._allocated[block_id] = at
        self._hits.pop(block_id, None)

    def hit(self, block_id: int, at: float) -> None:
        """Record a prefix-cache hit."""
        hits = self._hits.setdefault(block_id, [])
        hits.append(at)
        del hits[:-MAX_HITS]

    def evict(self, block_id: int, at: float) -> Residence:
        """Return the times of an evicted block. Raises KeyError for a block that was never allocated."""
        allocated, hits = self._allocated[block_id], self._hits.get(block_id, [])
        return Residence(at - allocated, at - (hits[-1] if hits else allocated), list(_gaps(hits)))


def _gaps(hits: list[float]) -> Iterator[float]:
    return (after - before for before, after in pairwise(hits))
