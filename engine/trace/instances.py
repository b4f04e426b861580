"""Functions on the part of a state that belongs to one instance."""

from __future__ import annotations

from collections.abc import Sequence as Items

from engine.trace.limits import Budget
from engine.trace.operations import Adjust, Op, Rank, Submit
from engine.trace.state import Block, CpuBlock, Sequence, State
from engine.trace.tables import block_of, expect, group_of


def own_tables(state: State, sequence: Sequence) -> list[list[int]]:
    """Return the sequence's block tables in the groups of its instance. It has no blocks in other groups."""
    if len(state.own_groups) == 1:
        return sequence.block_tables
    return [sequence.block_tables[group] for group in state.own_groups[sequence.instance]]


def queue_positions(state: State, queue: Items[int], instance: int) -> Items[int]:
    """Return the queue positions of the instance's sequences."""
    if len(state.own_groups) == 1:
        return range(len(queue))
    return [position for position, seq_id in enumerate(queue) if state.sequences[seq_id].instance == instance]


def expect_own(state: State, instance: int, op: Op) -> None:
    """Raise ValueError if the operation names a sequence or block of another instance."""
    for name in ("seq_id", "parent_seq_id"):
        found = state.sequences.get(getattr(op, name, -1))
        wrong = f"sequence {getattr(op, name, None)} is of another instance"
        expect(found is None or isinstance(op, Submit) or found.instance == instance, wrong)
    for seq_id in op.seq_ids if isinstance(op, Adjust | Rank) else ():
        expect(state.sequences[seq_id].instance == instance, f"sequence {seq_id} is of another instance")
    for name in ("block_id", "src", "dst"):
        block_id = getattr(op, name, None)
        if block_id is not None:
            block_of(state, block_id)
            owner = state.block_groups[group_of(state, block_id)].instance
            expect(owner == instance, f"block {block_id} is of another instance")
    if (cpu_block_id := getattr(op, "cpu_block_id", None)) is not None:
        owner = state.block_groups[cpu_block_id * len(state.block_groups) // max(len(state.cpu_blocks), 1)].instance
        expect(owner == instance, f"CPU block {cpu_block_id} is of another instance")


def lose_instance(state: State, instance: int, budget: Budget) -> None:
    """Apply the loss of an instance: finish its sequences and reset its pool."""
    own = state.own_groups[instance]
    for queue in (state.running, state.waiting, state.receiving):
        lost = [seq_id for seq_id in queue if state.sequences[seq_id].instance == instance]
        queue[:] = [seq_id for seq_id in queue if state.sequences[seq_id].instance != instance]
        state.finished += lost
        for sequence in (state.sequences[seq_id] for seq_id in lost):
            sequence.status, sequence.finish_reason, sequence.cpu_block_table = "finished", "abort", []
            _clear_tables(sequence)
    for seq_id in [i for i in state.holding if state.sequences[i].instance == instance]:
        state.holding.remove(seq_id)
        _clear_tables(state.sequences[seq_id])
    for index in own:
        group = state.block_groups[index]
        ids = range(group.first_block, group.first_block + group.num_blocks)
        budget.spend(group.num_blocks)
        state.blocks[ids.start : ids.stop] = [Block(block_id=i) for i in ids]
        state.free_queues[index] = list(ids)
    each = len(state.cpu_blocks) // len(state.block_groups)
    for i in range(own.start * each, own.stop * each):
        state.cpu_blocks[i] = CpuBlock(cpu_block_id=i)
    state.__dict__.pop("free_order", None)  # a cached property, rebuilt from the queues


def _clear_tables(sequence: Sequence) -> None:
    sequence.block_tables = [[] for _ in sequence.block_tables]
