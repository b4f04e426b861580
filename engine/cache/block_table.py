"""Block tables: logical block index -> physical block id, one for each sequence that holds blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.cache.block_pool import BlockPool
from engine.cache.guards import ensure
from engine.trace.events import RELEASED


@dataclass(slots=True)
class BlockTable:
    """What one sequence holds: the blocks of positions [0, len(block_ids) * block_size), RELEASED where one is gone."""

    block_ids: list[int] = field(default_factory=list)
    num_computed: int = 0  # positions [0, num_computed) are written, or promised by the sequence they were hit in
    num_hashed: int = 0  # leading blocks that came with a hash or have been given one
    num_released: int = 0  # entries that are RELEASED; they follow each other, and the last entry is none

    def held(self) -> list[tuple[int, int]]:
        """(logical, block id) of every block that it still has."""
        return [(logical, i) for logical, i in enumerate(self.block_ids) if i != RELEASED]

    def num_logical(self, block_size: int) -> int:
        """Computed tokens whose block it still has: a released block was full."""
        return self.num_computed - self.num_released * block_size


def check_tables(
    tables: Mapping[int, BlockTable], pool: BlockPool, block_size: int, promised: Mapping[int, int], tokens_logical: int
) -> None:
    """Recount what the tables say and compare it with the pool and the counter. Raises IntegrityError.

    `promised`: block id -> sequence that will fill it in this step. O(blocks in all tables).
    """
    owners: Counter[int] = Counter()
    for seq_id, table in tables.items():
        name = f"sequence {seq_id}"
        held = [block_id for _, block_id in table.held()]
        ensure(len(set(held)) == len(held), f"{name} has a block twice: {table.block_ids}", "table", seq_id=seq_id)
        gone = len(table.block_ids) - len(held)
        ensure(
            gone == table.num_released,
            f"{name} says {table.num_released} blocks are released, {gone} are",
            "table",
            seq_id=seq_id,
        )
        ensure(
            table.block_ids[-1:] != [RELEASED],
            f"{name} has released its last block: {table.block_ids}",
            "table",
            seq_id=seq_id,
        )
        covered = len(table.block_ids) * block_size
        ensure(
            table.num_computed <= covered,
            f"{name} has computed {table.num_computed} of {covered} positions",
            "table",
            seq_id=seq_id,
        )
        owners.update(held)
        for logical, block_id in table.held():
            block = pool.blocks[block_id]
            computed = min(max(table.num_computed - logical * block_size, 0), block_size)
            ensure(
                block.num_filled >= computed or block_id in promised,
                f"{name} has computed {computed} slots of block {block_id}, but {block.num_filled} are filled",
                "filled", block_id=block_id, said=block.num_filled, counted=computed,
            )  # fmt: skip
            hashed = logical >= table.num_hashed or block.block_hash is not None or block_id in promised
            ensure(hashed, f"{name} counts block {block_id} as hashed, but it carries no hash", "table", seq_id=seq_id)
    for block in pool.blocks:
        name, count = f"block {block.block_id}", owners[block.block_id]
        ensure(
            block.ref_count == count, f"{name} has ref_count {block.ref_count} and is in {count} tables",
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
        holds = seq_id in tables and block_id in tables[seq_id].block_ids
        ensure(
            holds,
            f"block {block_id} is promised by sequence {seq_id}, which does not hold it",
            "promise",
            block_id=block_id,
            seq_id=seq_id,
        )
    recount = sum(table.num_logical(block_size) for table in tables.values())
    ensure(
        tokens_logical == recount,
        f"the counter of computed tokens says {tokens_logical}, a recount {recount}",
        "counter",
        said=tokens_logical,
        counted=recount,
    )
