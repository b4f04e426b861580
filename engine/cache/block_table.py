"""Block tables of a sequence: logical block index -> physical block id, one table per group of layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from engine.cache.block_pool import BlockPool
from engine.cache.guards import ensure
from engine.trace.operations import RELEASED


@dataclass(slots=True)
class BlockTables:
    """Block tables of a sequence. Those of all groups cover the same positions, but have different released blocks.

        positions   [0 ............ num_computed) [num_computed ... len(block_ids[g]) * block_size)
                     K and V exist                 covered, written by this step or later

    `block_ids[g]`: the table of group g, with RELEASED for released blocks.
    `num_released[g]`: number of RELEASED entries in it. The last entry is never RELEASED. With a window the RELEASED
    entries are adjacent; with states or forgotten tokens they are scattered.
    """

    block_ids: list[list[int]]
    num_released: list[int]
    num_computed: int = 0  # positions written, or promised by the sequence that computes the hit block
    num_hashed: int = 0  # leading blocks with a hash

    @classmethod
    def empty(cls, num_groups: int) -> BlockTables:
        """Return tables without blocks."""
        return cls([[] for _ in range(num_groups)], [0] * num_groups)

    def copy(self) -> BlockTables:
        """Return an independent copy, for a fork."""
        return BlockTables(
            [list(table) for table in self.block_ids], list(self.num_released), self.num_computed, self.num_hashed
        )

    def held(self, group: int) -> list[tuple[int, int]]:
        """Return (logical, block id) of every block that is not released in a group."""
        return [(logical, i) for logical, i in enumerate(self.block_ids[group]) if i != RELEASED]

    def num_tokens(self, group: int, block_size: int) -> int:
        """Return the number of computed tokens in blocks that are not released. Released blocks were full."""
        return self.num_computed - self.num_released[group] * block_size


def check_tables(
    tables: Mapping[int, BlockTables],
    pool: BlockPool,
    block_size: int,
    promised: Mapping[int, int],
    tokens_logical: int,
    group: int = 0,
) -> None:
    """Compare the tables with the group's pool and counter. Raises IntegrityError.

    `promised`: block id -> sequence that will fill it in this step, for all groups. O(blocks in all tables).
    """
    owners: Counter[int] = Counter()
    for seq_id, table in tables.items():
        name = f"sequence {seq_id}"
        block_ids, released = table.block_ids[group], table.num_released[group]
        held = [block_id for _, block_id in table.held(group)]
        ensure(len(set(held)) == len(held), f"{name} has a block twice: {block_ids}", "table", seq_id=seq_id)
        gone = len(block_ids) - len(held)
        ensure(
            gone == released,
            f"{name} counts {released} released blocks, but its table has {gone}",
            "table",
            seq_id=seq_id,
        )
        ensure(
            block_ids[-1:] != [RELEASED],
            f"{name} has released its last block: {block_ids}",
            "table",
            seq_id=seq_id,
        )
        covered = len(block_ids) * block_size
        ensure(
            table.num_computed <= covered,
            f"{name} has computed {table.num_computed} positions, but its blocks cover {covered}",
            "table",
            seq_id=seq_id,
        )
        owners.update(held)
        for logical, block_id in table.held(group):
            block = pool.blocks[block_id]
            computed = min(max(table.num_computed - logical * block_size, 0), block_size)
            ensure(
                block.num_filled >= computed or block_id in promised,
                f"{name} has computed {computed} slots of block {block_id}, but {block.num_filled} are filled",
                "filled", block_id=block_id, said=block.num_filled, counted=computed,
            )  # fmt: skip
            hashed = logical >= table.num_hashed or block.block_hash is not None or block_id in promised
            ensure(hashed, f"{name} counts block {block_id} as hashed, but it has no hash", "table", seq_id=seq_id)
    for block in pool.blocks.values():
        name, count = f"block {block.block_id}", owners[block.block_id]
        ensure(
            block.ref_count == count, f"{name} has ref_count {block.ref_count}, but is in {count} tables",
            "ref_count", block_id=block.block_id, said=block.ref_count, counted=count,
        )  # fmt: skip
        ensure(
            0 <= block.num_filled <= block_size,
            f"{name} has {block.num_filled} of {block_size} slots filled",
            "filled",
            block_id=block.block_id,
            said=block.num_filled,
            counted=block_size,
        )
        if block.block_hash is not None:
            full = block.num_filled == block_size or block.block_id in promised
            ensure(
                full,
                f"{name} is cached with {block.num_filled} of {block_size} slots filled",
                "filled",
                block_id=block.block_id,
                said=block.num_filled,
                counted=block_size,
            )
    for block_id, seq_id in promised.items():
        if block_id not in pool.blocks:
            continue  # in the pool of another group
        holds = seq_id in tables and block_id in tables[seq_id].block_ids[group]
        ensure(
            holds,
            f"block {block_id} is promised by sequence {seq_id}, which does not hold it",
            "promise",
            block_id=block_id,
            seq_id=seq_id,
        )
    recount = sum(table.num_tokens(group, block_size) for table in tables.values())
    ensure(
        tokens_logical == recount,
        f"the counter of computed tokens is {tokens_logical}, a recount gives {recount}",
        "counter",
        said=tokens_logical,
        counted=recount,
    )
