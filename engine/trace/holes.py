"""Holes: runs of adjacent free blocks in a pool with contiguous allocation (strategy `first_fit`).

    pool     [ A A A . . B B B B . C C . . . . ]      blocks of sequences A, B and C; dots are free blocks
    holes          (3, 2)    (9, 1)  (12, 4)           (first block, blocks): 7 are free, the largest hole has 4

This is external fragmentation: an allocation of 5 blocks does not fit, although 7 blocks are free.
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
    """Return the holes of a pool in ascending order. O(blocks).

    `ref_counts`: those of all its blocks in order, from `first_block` on.
    """
    found: list[Hole] = []
    begin: int | None = None
    block_id = first_block
    for ref_count in ref_counts:
        if ref_count and begin is not None:
            found.append(Hole(begin, block_id - begin))
            begin = None
        elif not ref_count and begin is None:
            begin = block_id
        block_id += 1
    if begin is not None:
        found.append(Hole(begin, block_id - begin))
    return found


def first_fit(holes: Iterable[Hole], num_blocks: int) -> Hole | None:
    """Return the first hole of at least `num_blocks` blocks, or None (first fit; Knuth, TAOCP vol. 1, 2.5)."""
    return next((hole for hole in holes if hole.num_blocks >= num_blocks), None)
