"""Blocks of the CPU store, and the tables of swapped-out sequences."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from engine.cache.guards import ensure
from engine.cache.incoming import NOTHING, Incoming


@dataclass(slots=True)
class SwappedTable:
    """Swapped-out computed blocks of a sequence in the CPU store, in logical order."""

    cpu_block_ids: list[int]
    num_computed: int  # the blocks hold positions [0, num_computed), except those of released blocks
    logicals: list[int]  # logical index of each block; the missing indices were released


class SwapSpace:
    """CPU blocks with the ids [first_block, first_block + num_blocks), allocated in FIFO order.

    As with the blocks of a pool, the ids are unique among all groups of layers.
    """

    def __init__(self, num_blocks: int, first_block: int = 0) -> None:
        self.first_block = first_block
        self.num_blocks = num_blocks
        self.tables: dict[int, SwappedTable] = {}
        self._free = deque(range(first_block, first_block + num_blocks))

    @property
    def num_free(self) -> int:
        """Number of free blocks."""
        return len(self._free)

    @property
    def num_held(self) -> int:
        """Number of blocks that hold swapped-out content."""
        return self.num_blocks - len(self._free)

    def put(self, seq_id: int, logicals: list[int], num_computed: int) -> list[int]:
        """Allocate a CPU block for each logical block. Raises IndexError if too few are free: check `num_free`."""
        ensure(seq_id not in self.tables, f"sequence {seq_id} is swapped out already", "swapped_twice", seq_id=seq_id)
        cpu_block_ids = [self._free.popleft() for _ in logicals]
        self.tables[seq_id] = SwappedTable(cpu_block_ids, num_computed, logicals)
        return cpu_block_ids

    def take(self, seq_id: int) -> SwappedTable:
        """Free and return the sequence's blocks. Raises KeyError if it is not swapped out."""
        table = self.tables.pop(seq_id)
        self._free.extend(table.cpu_block_ids)
        return table

    def incoming(self, seq_id: int) -> Incoming:
        """Return the swapped-out logical blocks; entries between them were released."""
        table = self.tables.get(seq_id)
        return Incoming("swap_in", 0, table.logicals[-1] + 1, frozenset(table.logicals)) if table else NOTHING

    def check_integrity(self) -> None:
        """Raise IntegrityError if a block is lost or held twice."""
        held = [i for table in self.tables.values() for i in table.cpu_block_ids]
        everything = sorted([*held, *self._free])
        ensure(
            everything == list(range(self.first_block, self.first_block + self.num_blocks)),
            f"CPU blocks are missing or listed twice: held {held}, free {list(self._free)}",
            "swap_space",
            said=len(everything),
            counted=self.num_blocks,
        )
