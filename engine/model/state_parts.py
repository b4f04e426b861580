"""The parts of a packed row that a state-bearing module runs one after the other.

A slice of several tokens ends a part at each block of states that its table names, so that a state is left there; a
sequence with one token shares a part with the others. A part that begins from a state which another one leaves in the
same step (a prefix hit on a promised block) comes after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.model.batch import SequenceSlice
from engine.trace.operations import RELEASED


class RowSegment(NamedTuple):
    """Tokens of the row that run together: adjacent ones of one sequence, or one of each of several sequences."""

    begin: int
    length: int
    rows: Tensor | None  # [n] the packed tokens of n sequences; None: [begin, begin + length) of one
    read: Tensor | None  # [n] or [1] places of the states that they begin from; None: from nothing
    write: Tensor  # [n] or [1] places of the states that they leave


class _Run(NamedTuple):
    wave: int
    begin: int
    length: int
    read: int | None
    write: int


def parts_of(
    slices: Sequence[SequenceSlice],
    tables: Sequence[Sequence[int]],
    block_size: int,
    first_block: int,
    device: torch.device,
    one_by_one: bool = False,
) -> list[RowSegment]:
    """`tables`: of states, of each slice. `one_by_one`: a module goes on from a state with one token at a time only."""
    runs: list[_Run] = []
    written: dict[int, int] = {}  # block -> wave after which it is there
    begin = 0
    for piece, table in zip(slices, tables, strict=True):
        position, end = piece.start, piece.start + len(piece.token_ids)
        read = table[(position - 1) // block_size] if position else None
        while position < end:
            until = _until(table, position, end, block_size)
            write = table[(until - 1) // block_size]  # it may hold the states before its own meanwhile
            if one_by_one and position:
                until = position + 1
            wave = 0 if read is None else written.get(read, -1) + 1
            runs.append(_Run(wave, begin + position - piece.start, until - position, read, write))
            written[write] = wave
            position, read = until, write
        begin += len(piece.token_ids)
    return _grouped(sorted(runs, key=lambda run: run.wave), first_block, device)


def _until(table: Sequence[int], position: int, end: int, block_size: int) -> int:
    """Where the part that begins at `position` ends: with the next block that gets a state."""
    logical = position // block_size
    while (logical + 1) * block_size < end and table[logical] == RELEASED:
        logical += 1
    return min((logical + 1) * block_size, end)


def _grouped(runs: Sequence[_Run], first_block: int, device: torch.device) -> list[RowSegment]:
    parts: list[RowSegment] = []
    single: list[_Run] = []

    def places(blocks: Sequence[int]) -> Tensor:
        return torch.tensor(blocks, device=device) - first_block

    def flush() -> None:
        if single:
            rows = torch.tensor([run.begin for run in single], device=device)
            read = places([run.read for run in single if run.read is not None])
            parts.append(RowSegment(0, len(single), rows, read, places([run.write for run in single])))
            single.clear()

    wave = 0
    for run in runs:
        if run.wave != wave:
            flush()
            wave = run.wave
        if run.length == 1 and run.read is not None:
            single.append(run)
        else:
            read = None if run.read is None else places([run.read])
            parts.append(RowSegment(run.begin, run.length, None, read, places([run.write])))
    flush()
    return parts
