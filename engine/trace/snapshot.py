"""Part of a state that the engine's live objects also have. Tests compare it with a replay after every step."""

from __future__ import annotations

from msgspec import Struct

from engine.trace.records import Memory
from engine.trace.state import State, memory_figures


class Snapshot(Struct, frozen=True, kw_only=True):
    """Tables, counts and queues. Lists are indexed by block id or in queue order."""

    block_tables: dict[int, list[list[int]]]  # seq_id -> block ids per group of layers, for sequences with blocks
    num_computed_tokens: dict[int, int]  # seq_id -> count, for unfinished sequences
    ref_counts: list[int]
    block_hashes: list[bytes | None]
    free_queues: list[list[int]]
    waiting: list[int]
    running: list[int]
    memory: Memory
    receiving: list[int] = []
    holding: list[int] = []
    cpu_block_tables: dict[int, list[int]] = {}  # seq_id -> blocks of the CPU store, for swapped-out sequences


def snapshot_of(state: State) -> Snapshot:
    """Return the snapshot of a replayed state."""
    return Snapshot(
        block_tables={i: [list(t) for t in s.block_tables] for i, s in state.sequences.items() if any(s.block_tables)},
        num_computed_tokens={i: s.num_computed_tokens for i, s in state.sequences.items() if s.status != "finished"},
        ref_counts=[b.ref_count for b in state.blocks],
        block_hashes=[b.block_hash for b in state.blocks],
        free_queues=[list(queue) for queue in state.free_queues],
        waiting=list(state.waiting),
        running=list(state.running),
        memory=memory_figures(state),
        receiving=list(state.receiving),
        holding=list(state.holding),
        cpu_block_tables={i: list(s.cpu_block_table) for i, s in state.sequences.items() if s.cpu_block_table},
    )
