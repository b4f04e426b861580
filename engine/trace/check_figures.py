"""Memory figures of a state, updated record by record, because a full recount after each record takes too long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from engine.trace.geometry import group_index
from engine.trace.operations import (
    RELEASED,
    Allocate,
    Fork,
    Free,
    KnownSince,
    Lost,
    Op,
    Release,
    Removed,
    Share,
    Stored,
    Write,
)
from engine.trace.records import Memory, StepRecord
from engine.trace.state import State

CHANGES_TABLES = Allocate | Share | Free | Release | Fork


class _Counted(NamedTuple):
    """A block's contribution to the figures."""

    held: bool = False
    cached: bool = False
    tokens: int = 0  # filled slots if the block is held


UNTOUCHED = _Counted()


class IncrementalFigures:
    """Memory figures of a state whose blocks are all free at first. Add every record."""

    def __init__(self, state: State) -> None:
        self._state = state
        num_groups = len(state.block_groups)
        self._blocks: dict[int, _Counted] = {}
        self._held, self._cached, self._tokens = [0] * num_groups, [0] * num_groups, [0] * num_groups
        self._logical: dict[int, list[int]] = {}  # seq_id -> tokens in each of its tables
        self._sums = [0] * num_groups  # sums of `_logical`
        self._released: dict[int, list[int]] = {}  # seq_id -> number of released entries in each of its tables
        self._swapped: dict[int, bool] = {}  # block of the CPU store -> whether it is in use
        self._swap_held = [0] * num_groups

    def add(self, record: StepRecord) -> None:
        """Add the record that was just applied to the state."""
        changed = {op.seq_id for op in record.ops if isinstance(op, CHANGES_TABLES)}
        for op in record.ops:
            for block_id in self._blocks_of(op):
                self._recount(block_id)
            if (cpu_block_id := getattr(op, "cpu_block_id", None)) is not None:
                self._recount_cpu(cpu_block_id)
        touched = {seq_id for op in record.ops if (seq_id := getattr(op, "seq_id", None)) is not None}
        if any(isinstance(op, Lost | KnownSince) for op in record.ops):
            lost = self._recount_instance(record.instance)
            changed, touched = changed | lost, touched | lost
        for seq_id in touched | {entry.seq_id for entry in record.batch}:
            self._recount_sequence(seq_id, seq_id in changed)

    def figures(self) -> Memory:
        """Return the figures after the last record."""
        state, num_groups = self._state, len(self._state.block_groups)
        return Memory.total(
            [
                Memory.counted(
                    num_blocks=group.num_blocks,
                    block_size=state.block_size,
                    blocks_held=self._held[index],
                    blocks_cached=self._cached[index],
                    tokens_held=self._tokens[index],
                    tokens_logical=self._sums[index],
                    kv_bytes_per_token=group.kv_bytes_per_token,
                    state_bytes=group.state_bytes,
                    swap_blocks=len(state.cpu_blocks) // num_groups,
                    swap_blocks_held=self._swap_held[index],
                )
                for index, group in enumerate(state.block_groups)
            ]
        )

    def _recount_instance(self, instance: int) -> set[int]:
        """Recount the instance's pool, which has lost all its content, and return the instance's sequences."""
        state = self._state
        for group in (state.block_groups[index] for index in state.own_groups[instance]):
            for block_id in range(group.first_block, group.first_block + group.num_blocks):
                self._recount(block_id)
        each = len(state.cpu_blocks) // len(state.block_groups)
        for cpu_block_id in range(state.own_groups[instance].start * each, state.own_groups[instance].stop * each):
            self._recount_cpu(cpu_block_id)
        return {seq_id for seq_id in self._logical if state.sequences[seq_id].instance == instance}

    def _blocks_of(self, op: Op) -> Iterable[int]:
        """Return the blocks whose owners or content the operation may have changed.

        The tables are those after the record. A block that a later operation removed is returned for that operation.
        """
        state = self._state
        if isinstance(op, Write):
            first, last = op.start // state.block_size, (op.start + op.num_tokens - 1) // state.block_size
            tables = state.sequences[op.seq_id].block_tables if op.num_tokens else []
            return [b for table in tables for b in table[first : last + 1] if b != RELEASED]
        if isinstance(op, Fork):
            return [b for table in state.sequences[op.seq_id].block_tables for b in table if b != RELEASED]
        if isinstance(op, Stored | Removed):
            return [] if op.outside else [op.place]
        return [b for name in ("block_id", "src", "dst") if (b := getattr(op, name, None)) is not None]

    def _recount(self, block_id: int) -> None:
        block, group = self._state.blocks[block_id], group_index(self._state.block_groups, block_id)
        held = block.ref_count > 0
        cached = not held and block.block_hash is not None
        now, before = _Counted(held, cached, len(block.token_ids) if held else 0), self._blocks.get(block_id, UNTOUCHED)
        self._blocks[block_id] = now
        self._held[group] += now.held - before.held
        self._cached[group] += now.cached - before.cached
        self._tokens[group] += now.tokens - before.tokens

    def _recount_cpu(self, cpu_block_id: int) -> None:
        now = self._state.cpu_blocks[cpu_block_id].seq_id is not None
        group = cpu_block_id * len(self._state.block_groups) // len(self._state.cpu_blocks)
        self._swap_held[group] += now - self._swapped.get(cpu_block_id, False)
        self._swapped[cpu_block_id] = now

    def _recount_sequence(self, seq_id: int, tables_changed: bool) -> None:
        sequence, size = self._state.sequences[seq_id], self._state.block_size
        if tables_changed or seq_id not in self._released:
            self._released[seq_id] = [table.count(RELEASED) for table in sequence.block_tables]
        zero = [0] * len(sequence.block_tables)
        released = zip(sequence.block_tables, self._released[seq_id], strict=True)
        now = [sequence.num_computed_tokens - count * size if table else 0 for table, count in released]
        before = self._logical.get(seq_id, zero)
        self._logical[seq_id] = now
        for group in range(len(now)):
            self._sums[group] += now[group] - before[group]
