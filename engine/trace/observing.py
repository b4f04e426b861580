"""Effects of a monitored server's operations on a state. Contents get places, because their blocks are unknown.

`static/js/core/state_observed.js` mirrors this file.
"""

from __future__ import annotations

from engine.trace.limits import MAX_BLOCKS, Budget
from engine.trace.operations import Removed, Stored
from engine.trace.state import Block, OutsideBlock, State
from engine.trace.tables import block_of, expect, group_of

UNSAID = "a monitored server reports no requests, tokens, steps or owners of blocks"


def put(state: State, instance: int, op: Stored, index: int, budget: Budget) -> None:
    """Store a content at its place. Raises ValueError if there is no such place or it has another content."""
    block = _outside(state, instance, op.place, True) if op.outside else _own(state, instance, op.place)
    if op.again:
        expect(block.block_hash == op.block_hash, "the place does not have that content")
        if isinstance(block, Block):
            block.last_hit_in = index
        return
    expect(block.block_hash is None, "the place has content already")
    budget.spend(len(op.token_ids))
    block.block_hash = op.block_hash
    # a group of the server may have larger blocks than the pool; the state omits the tokens of such contents
    block.token_ids = list(op.token_ids) if len(op.token_ids) <= state.block_size else []
    if isinstance(block, Block):
        expect(block.ref_count == 0, f"block {block.block_id} has owners, which a monitored server does not report")
        block.allocated_in, block.last_hit_in, block.num_hits = index, None, 0
    else:
        block.medium = op.medium


def remove(state: State, instance: int, op: Removed) -> None:
    """Clear a place unless copies remain. Raises ValueError if there is no such place or it has another content."""
    block = _outside(state, instance, op.place, False) if op.outside else _own(state, instance, op.place)
    expect(block.block_hash == op.block_hash, "the place does not have that content")
    if op.num_left > 0:
        return
    if isinstance(block, Block):
        state.blocks[block.block_id] = Block(block_id=block.block_id)
    else:
        state.outside[block.place] = OutsideBlock(place=block.place, instance=instance)


def clear(state: State, instance: int, budget: Budget) -> None:
    """Clear every place of the instance."""
    for index in state.own_groups[instance]:
        group = state.block_groups[index]
        budget.spend(group.num_blocks)
        for block_id in range(group.first_block, group.first_block + group.num_blocks):
            block = state.blocks[block_id]
            expect(block.ref_count == 0, f"block {block_id} has owners, which a monitored server does not report")
            if block.block_hash is not None:
                state.blocks[block_id] = Block(block_id=block_id)
    for place, outside in enumerate(state.outside):
        if outside.instance == instance and outside.block_hash is not None:
            state.outside[place] = OutsideBlock(place=place, instance=instance)


def _own(state: State, instance: int, block_id: int) -> Block:
    block = block_of(state, block_id)
    owner = state.block_groups[group_of(state, block.block_id)].instance
    expect(owner == instance, f"block {block_id} is of another instance")
    return block


def _outside(state: State, instance: int, place: int, may_grow: bool) -> OutsideBlock:
    if may_grow and place == len(state.outside) < MAX_BLOCKS:
        state.outside.append(OutsideBlock(place=place, instance=instance))
    expect(0 <= place < len(state.outside), f"there is no place {place} outside the pool")
    found = state.outside[place]
    expect(found.instance == instance, f"place {place} is of another instance")
    return found
