"""Preemption by swap, of one group's blocks: content goes to the CPU store and comes back."""

from __future__ import annotations

from engine.cache.block_table import BlockTables
from engine.cache.group_manager import GroupManager
from engine.cache.guards import ensure
from engine.trace.operations import Drop, SwapIn, SwapOut


def can_swap_out(group: GroupManager, tables: BlockTables) -> bool:
    """Return whether the CPU store has room for what is computed."""
    return len(_computed(group, tables)) <= group.swap_space.num_free


def swap_out(group: GroupManager, seq_id: int, tables: BlockTables) -> int:
    """Computed blocks get their copies in the CPU store, which must have room. `GroupManager.free` follows.

    Returns the bytes moved. Shared blocks are copied too: in the CPU store nothing is shared.
    """
    computed = _computed(group, tables)
    cpu_block_ids = group.swap_space.put(seq_id, [logical for logical, _ in computed], tables.num_computed)
    for (logical, block_id), cpu_block_id in zip(computed, cpu_block_ids, strict=True):
        ensure(
            block_id not in group.promised,
            f"block {block_id} is swapped out, but it is not written yet",
            "unwritten",
            block_id=block_id,
        )
        group.moves.swap_out(block_id, cpu_block_id)
        group.emit(
            SwapOut(
                seq_id=seq_id,
                logical=logical,
                block_id=block_id,
                cpu_block_id=cpu_block_id,
                num_bytes=group.kv_bytes_per_block,
            )
        )
    return len(computed) * group.kv_bytes_per_block


def swap_in(group: GroupManager, seq_id: int, tables: BlockTables) -> None:
    """The content comes back into the blocks that `GroupManager.cover` allocated; its CPU blocks are free."""
    swapped, size = group.swap_space.take(seq_id), group.block_size
    for logical, cpu_block_id in zip(swapped.logicals, swapped.cpu_block_ids, strict=True):
        block = group.pool.blocks[tables.block_ids[group.index][logical]]
        group.pool.fill(block, min(swapped.num_computed - logical * size, size))
        group.moves.swap_in(cpu_block_id, block.block_id)
        group.emit(
            SwapIn(
                seq_id=seq_id,
                logical=logical,
                block_id=block.block_id,
                cpu_block_id=cpu_block_id,
                num_bytes=group.kv_bytes_per_block,
            )
        )
    group.tokens_logical += tables.num_computed  # of what was released `cover` knows


def drop(group: GroupManager, seq_id: int) -> None:
    """A sequence will not come back: its CPU blocks, if it has any, are free, their content gone."""
    if seq_id in group.swap_space.tables:
        for cpu_block_id in group.swap_space.take(seq_id).cpu_block_ids:
            group.emit(Drop(seq_id=seq_id, cpu_block_id=cpu_block_id))


def _computed(group: GroupManager, tables: BlockTables) -> list[tuple[int, int]]:
    """(logical, block id) of the blocks with something in them."""
    end = -(-tables.num_computed // group.block_size)
    return [held for held in tables.held(group.index) if held[0] < end]
