"""Holes: free blocks that lie beside each other in a region of which sequences get pieces (strategy `first_fit`).

    region   [ A A A . . B B B B . C C . . . . ]      pieces of A, B and C, free blocks as dots
    holes          (3, 2)    (9, 1)  (12, 4)           (first block, blocks): 7 are free, the largest hole has 4

Many free blocks in many holes are external fragmentation: a piece of 5 fits nowhere here, although 7 are free.
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
    """Return the holes of a pool, by place. `ref_counts`: of all its blocks in order, the first of which is
    `first_block`.

    Neighbours are one hole: a piece that is given back merges with what is free beside it. O(blocks).
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
    """Return the first hole with so many blocks; None: no hole is large enough (Knuth, TAOCP vol. 1, 2.5,
    "first-fit").
    """
    return next((hole for hole in holes if hole.num_blocks >= num_blocks), None)
