"""Segments of a packed row, which a module with a state runs sequentially.

A slice of several tokens ends a segment at each block of states in its table, where its state is stored. Sequences with
one token share a segment. A segment that continues from a state of the same step (a prefix hit on a promised block)
runs after the segment that stores the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.model.batch import SequenceSlice
from engine.trace.operations import RELEASED


class RowSegment(NamedTuple):
    """Tokens of the row that run together: adjacent tokens of a sequence, or one token each of several sequences."""

    begin: int
    length: int
    rows: Tensor | None  # [n] packed tokens of n sequences; None: [begin, begin + length) of one sequence
    read: Tensor | None  # [n] or [1] places of the previous states; None: there is no state yet
    write: Tensor  # [n] or [1] places of the new states


class _Run(NamedTuple):
    wave: int
    begin: int
    length: int
    read: int | None
    write: int


def segments_of(
    slices: Sequence[SequenceSlice],
    tables: Sequence[Sequence[int]],
    block_size: int,
    first_block: int,
    device: torch.device,
    one_by_one: bool = False,
) -> list[RowSegment]:
    """Return the segments of a step, in order of execution.

    `tables`: the table of states of each slice. `one_by_one`: whether modules that continue from a state process one
    token at a time.
    """
    runs: list[_Run] = []
    written: dict[int, int] = {}  # wave that writes a block, by block
    begin = 0
    for piece, table in zip(slices, tables, strict=True):
        position, end = piece.start, piece.start + len(piece.token_ids)
        read = table[(position - 1) // block_size] if position else None
        while position < end:
            stop = _segment_end(table, position, end, block_size)
            write = table[(stop - 1) // block_size]  # with `one_by_one` it temporarily has earlier states
            if one_by_one and position:
                stop = position + 1
            wave = 0 if read is None else written.get(read, -1) + 1
            runs.append(_Run(wave, begin + position - piece.start, stop - position, read, write))
            written[write] = wave
            position, read = stop, write
        begin += len(piece.token_ids)
    return _grouped(sorted(runs, key=lambda run: run.wave), first_block, device)


def _segment_end(table: Sequence[int], position: int, end: int, block_size: int) -> int:
    """Return the end of the segment that begins at `position`: the end of the next block that stores a state."""
    logical = position // block_size
    while (logical + 1) * block_size < end and table[logical] == RELEASED:
        logical += 1
    return min((logical + 1) * block_size, end)


def _grouped(runs: Sequence[_Run], first_block: int, device: torch.device) -> list[RowSegment]:
    segments: list[RowSegment] = []
    single: list[_Run] = []

    def places(blocks: Sequence[int]) -> Tensor:
        return torch.tensor(blocks, device=device) - first_block

    def flush() -> None:
        if single:
            rows = torch.tensor([run.begin for run in single], device=device)
            read = places([run.read for run in single if run.read is not None])
            segments.append(RowSegment(0, len(single), rows, read, places([run.write for run in single])))
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
            segments.append(RowSegment(run.begin, run.length, None, read, places([run.write])))
    flush()
    return segments
