"""Lifetimes of blocks in seconds.

An `evict` has them in steps. The seconds are those of the log: allocation, hit and eviction happen at the end of their
record (`timing.at`), so blocks age while a run is paused, as on an idle server.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

MAX_HITS = 4  # as many as vLLM keeps, and the engine (engine/cache/block_pool.py)


class Residence(NamedTuple):
    """Seconds of an evicted block, as vLLM has them: an access is the allocation or a hit."""

    lifetime: float
    idle: float
    reuse_gaps: list[float]


class Residencies:
    """Times of allocation and last hits of each block of a run. Bounded by the pool."""

    def __init__(self) -> None:
        self._born: dict[int, float] = {}
        self._hits: dict[int, list[float]] = {}

    def allocated(self, block_id: int, at: float) -> None:
        """Record an allocation; earlier hits belong to other content."""
        self._born[block_id] = at
        self._hits.pop(block_id, None)

    def hit(self, block_id: int, at: float) -> None:
        """Record a prefix-cache hit."""
        hits = self._hits.setdefault(block_id, [])
        hits.append(at)
        del hits[:-MAX_HITS]

    def evicted(self, block_id: int, at: float) -> Residence:
        """Return how long it lived. Raises KeyError for a block that was never allocated."""
        born, hits = self._born[block_id], self._hits.get(block_id, [])
        return Residence(at - born, at - (hits[-1] if hits else born), list(_gaps(hits)))


def _gaps(hits: list[float]) -> Iterator[float]:
    return (after - before for before, after in pairwise(hits))
