"""Holes: runs of adjacent free blocks in a region from which sequences get pieces (strategy `first_fit`).

    region   [ A A A . . B B B B . C C . . . . ]      pieces of A, B and C, free blocks as dots
    holes          (3, 2)    (9, 1)  (12, 4)           (first block, blocks): 7 are free, the largest hole has 4

Free blocks in many holes are external fragmentation: a piece of 5 fits nowhere here, although 7 blocks are free.
`static/js/core/state_tables.js` mirrors this file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Hole(NamedTuple):
    """Free blocks with the ids [block_id, block_id + num_blocks)."""

    block_id: int
    num_blocks: int


def holes_of(ref_counts: Iterable[int], first_block: int = 0) -> list[Hole]:
    """Return the holes of a pool in ascending order. `ref_counts`: of all its blocks in order, from `first_block` on.

    Adjacent free blocks are one hole, so a freed piece merges with its neighbours. O(blocks).
    """
    found: list[Hole] = []
    begin: int | None = None
    place = first_block
    for ref_count in ref_counts:
        if ref_count and begin is not None:
            found.append(Hole(begin, place - begin))
            begin = None
        elif not ref_count and begin is None:
            begin = place
        place += 1
    if begin is not None:
        found.append(Hole(begin, place - begin))
    return found


def first_fit(holes: Iterable[Hole], num_blocks: int) -> Hole | None:
    """Return the first hole of at least `num_blocks`, or None (first-fit, Knuth, TAOCP vol. 1, 2.5)."""
    return next((hole for hole in holes if hole.num_blocks >= num_blocks), None)
