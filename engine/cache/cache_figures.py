"""Values that a cache reports: the demand of an allocation, and a snapshot of its state."""

from __future__ import annotations

from typing import NamedTuple


class BlockDemand(NamedTuple):
    """Blocks that an allocation would take from the free queue, and how many it may take.

    Free blocks are available, less those that the same allocation would revive. Where a sequence gets one piece of a
    region, the largest hole is available, and `num_free` says how many blocks all holes have together.
    """

    needed: int
    available: int
    num_free: int | None = None

    @property
    def fits(self) -> bool:
        """Whether the allocation would succeed."""
        return self.needed <= self.available


class Snapshot(NamedTuple):
    """The manager's state in the terms of `trace.state.State`, blocks by id."""

    ref_counts: list[int]
    block_hashes: list[bytes | None]
    num_filled: list[int]
    free_queues: list[list[int]]  # of each group of layers
    block_tables: dict[int, list[list[int]]]  # sequences that hold blocks: a table for each group
    cpu_block_tables: dict[int, list[int]]  # sequences that are swapped out
