"""Functions on blocks and block tables of a state, for the effects of operations."""

from __future__ import annotations

from engine.trace.geometry import group_index
from engine.trace.holes import Hole, first_fit, holes_of
from engine.trace.limits import Budget
from engine.trace.operations import RELEASED, QueueEnd
from engine.trace.state import Block, CpuBlock, Sequence, State


def expect(condition: bool, message: str) -> None:
    """Raise ValueError(message) unless `condition` is true."""
    if not condition:
        raise ValueError(message)


def group_of(state: State, block_id: int) -> int:
    """Return the block's group of layers."""
    return group_index(state.block_groups, block_id)


def is_of_states(state: State, group: int) -> bool:
    """Return whether the group's blocks hold states. Only some table entries of such a group have a block."""
    return state.block_groups[group].state_bytes > 0


def block_of(state: State, block_id: int) -> Block:
    """Return a block. Raises ValueError if no pool has it."""
    if not 0 <= block_id < len(state.blocks):  # not `expect`, which would format the message on every call
        raise ValueError(f"there is no block {block_id}" if block_id != RELEASED else "that block is released")
    return state.blocks[block_id]


def table_of(state: State, seq_id: int, block_id: int) -> list[int]:
    """Return the sequence's table in the block's group."""
    block_of(state, block_id)
    return state.sequences[seq_id].block_tables[group_of(state, block_id)]


def entry_of(state: State, seq_id: int, block_id: int, logical: int) -> list[int]:
    """Return the table that has the block at `logical`. Raises ValueError if there is none."""
    table = table_of(state, seq_id, block_id)
    expect(0 <= logical < len(table) and table[logical] == block_id, f"block {block_id} is not at {logical}")
    return table


def set_table(
    sequence: Sequence, group: int, logical: int, block_id: int, may_skip: bool, budget: Budget
) -> int | None:
    """Append to a group's table, or replace an entry. Returns the replaced block, or None.

    `may_skip`: fill entries between the table's end and `logical` with RELEASED. Hits under a window begin at the first
    visible block, and a swapped-in sequence only gets blocks for its content of the CPU store.
    """
    table = sequence.block_tables[group]
    end = max(len(sequence.token_ids), len(table))  # a reservation has blocks for future tokens
    if not 0 <= logical <= end:
        raise ValueError(f"there is no logical block {logical}")
    if may_skip and logical > len(table):
        budget.spend(logical - len(table))
        table += [RELEASED] * (logical - len(table))
    if logical > len(table):
        raise ValueError(f"logical block {logical} would leave a hole in the table")
    replaced = table[logical] if logical < len(table) else RELEASED
    table[logical : logical + 1] = [block_id]
    return None if replaced == RELEASED else replaced


def remove_owner(state: State, block_id: int, to: QueueEnd | None) -> None:
    """Remove an owner. A block without owners enters its free queue at `to`, and is emptied if it has no hash."""
    block = block_of(state, block_id)
    block.ref_count -= 1
    if (to is None) != (block.ref_count > 0):
        raise ValueError(f"block {block_id} has {block.ref_count} owners left")
    if block.block_hash is None and block.ref_count == 0:
        block.token_ids = []
    queue = state.free_queues[group_of(state, block_id)]
    if to == "front":
        state.free_order.push_front(queue, block_id)
    elif to == "back":
        state.free_order.push_back(queue, block_id)


def requeue(state: State, block_ids: list[int], budget: Budget) -> None:
    """Move free blocks to the head of their queue, in this order. Raises ValueError if a block is not free."""
    budget.spend(len(block_ids))
    for block_id in reversed(block_ids):
        block_of(state, block_id)
        queue = state.free_queues[group_of(state, block_id)]
        state.free_order.remove(queue, block_id)
        state.free_order.push_front(queue, block_id)


def _holes(state: State, group: int, budget: Budget) -> list[Hole]:
    """Return the holes of a group's pool in ascending order."""
    first, count = state.block_groups[group].first_block, state.block_groups[group].num_blocks
    budget.spend(count)
    return holes_of((block.ref_count for block in state.blocks[first : first + count]), first)


def check_fragmented(state: State, needed: int, largest: int, num_free: int | None, budget: Budget) -> None:
    """Raise ValueError unless `needed` blocks are free, but no hole is large enough for them."""
    sizes = [hole.num_blocks for hole in _holes(state, 0, budget)]
    found, free = max(sizes, default=0), sum(sizes)
    expect(
        (largest, num_free) == (found, free),
        f"the largest hole has {found} blocks and {free} are free, not {largest} and {num_free}",
    )
    expect(found < needed <= free, f"fragmentation does not prevent the allocation of {needed} blocks")


def reserve_blocks(state: State, seq_id: int, first: int, num_blocks: int, hole_blocks: int, budget: Budget) -> None:
    """Move adjacent free blocks to the head of their free queue, from which allocations take them in order.

    Raises ValueError unless they begin the first hole that is large enough, which has `hole_blocks` blocks.
    """
    index = group_of(state, first)
    fit = first_fit(_holes(state, index, budget), num_blocks)
    expect(
        num_blocks > 0 and fit == Hole(first, hole_blocks),
        f"the first hole for {num_blocks} blocks is not one of {hole_blocks} at block {first}",
    )
    expect(not state.sequences[seq_id].block_tables[index], f"sequence {seq_id} has blocks already")
    state.free_order.to_front(state.free_queues[index], range(first, first + num_blocks))


def cpu_block_of(state: State, cpu_block_id: int) -> CpuBlock:
    """Return a block of the CPU store. Raises ValueError if there is no such block."""
    expect(0 <= cpu_block_id < len(state.cpu_blocks), f"there is no CPU block {cpu_block_id}")
    return state.cpu_blocks[cpu_block_id]


def free_cpu_block(state: State, sequence: Sequence, cpu_block_id: int) -> None:
    """Free the sequence's first block of the CPU store. Raises ValueError if `cpu_block_id` is another block."""
    expect(sequence.cpu_block_table[:1] == [cpu_block_id], f"CPU block {cpu_block_id} is not the sequence's first")
    sequence.cpu_block_table.pop(0)
    state.cpu_blocks[cpu_block_id] = CpuBlock(cpu_block_id=cpu_block_id)
