"""Values that a cache reports: the demand of an allocation, and a snapshot of its state."""

from __future__ import annotations

from typing import NamedTuple


class BlockDemand(NamedTuple):
    """Number of blocks that an allocation needs from the free queue, and number of available ones.

    Free blocks are available unless the same allocation would revive them. In a contiguous group, only the largest hole
    is available, and `num_free` is the number of free blocks in all holes.
    """

    needed: int
    available: int
    num_free: int | None = None

    @property
    def fits(self) -> bool:
        """Whether the allocation would succeed."""
        return self.needed <= self.available


class Snapshot(NamedTuple):
    """State of the manager in the form of `trace.state.State`. Lists of blocks are indexed by block id."""

    ref_counts: list[int]
    block_hashes: list[bytes | None]
    num_filled: list[int]
    free_queues: list[list[int]]  # of each group of layers
    block_tables: dict[int, list[list[int]]]  # seq_id -> table of each group, for sequences that hold blocks
    cpu_block_tables: dict[int, list[int]]  # seq_id -> CPU blocks, for sequences that are swapped out
