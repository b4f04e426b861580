"""Swapping of one group's blocks to the CPU store and back."""

from __future__ import annotations

from engine.cache.block_table import BlockTables
from engine.cache.group_manager import GroupManager
from engine.cache.guards import ensure
from engine.trace.operations import Drop, SwapIn, SwapOut


def can_swap_out(group: GroupManager, tables: BlockTables) -> bool:
    """Return whether the computed blocks fit into the CPU store."""
    return len(_computed(group, tables)) <= group.swap_space.num_free


def swap_out(group: GroupManager, seq_id: int, tables: BlockTables) -> int:
    """Copy computed blocks to the CPU store, which must have enough free blocks. Returns the bytes moved.

    The caller then frees the blocks (`GroupManager.free`). Shared blocks are copied too: the CPU store shares nothing.
    """
    computed = _computed(group, tables)
    cpu_block_ids = group.swap_space.put(seq_id, [logical for logical, _ in computed], tables.num_computed)
    for (logical, block_id), cpu_block_id in zip(computed, cpu_block_ids, strict=True):
        ensure(
            block_id not in group.promised,
            f"block {block_id} is swapped out, but not written yet",
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
    """Move the content back into the blocks that `GroupManager.cover` allocated, and free the CPU blocks."""
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
    group.tokens_logical += tables.num_computed  # `cover` has subtracted the released blocks


def drop(group: GroupManager, seq_id: int) -> None:
    """Free the CPU blocks of a finished sequence, if it has any."""
    if seq_id in group.swap_space.tables:
        for cpu_block_id in group.swap_space.take(seq_id).cpu_block_ids:
            group.emit(Drop(seq_id=seq_id, cpu_block_id=cpu_block_id))


def _computed(group: GroupManager, tables: BlockTables) -> list[tuple[int, int]]:
    """Return (logical, block id) of the blocks with computed tokens."""
    end = -(-tables.num_computed // group.block_size)
    return [held for held in tables.held(group.index) if held[0] < end]
