"""Table rows of blocks: the properties of a block that the page draws, and the changes of blocks by a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from engine.trace.instances import own_tables
from engine.trace.operations import RELEASED, Copy, Fork, KnownSince, Lost, Op, Removed, Sample, Stored, Write
from engine.trace.records import StepRecord
from engine.trace.state import State, held_blocks

NONE = -1  # no sequence, no record
Rows = NDArray[Any]
# operation types with one block
NAMES_BLOCK = frozenset(kind for kind in get_args(Op) if "block_id" in kind.__struct_fields__)

# a block after a record
BLOCK = np.dtype(
    [
        ("owner", "<i4"),  # row of the sequence of its last allocation; NONE: never allocated
        ("ref_count", "<i4"),
        ("filled", "<i4"),  # number of filled slots
        ("allocated_in", "<i4"),  # record of the last allocation
        ("used_in", "<i4"),  # last record with an operation on the block, or on its content in a tier
        ("num_hits", "<i4"),  # since the last allocation
        ("content", "<i4"),  # row of its content; NONE: the content has no hash
        ("is_cached", "u1"),  # whether it has a hash
        ("tiers", "u1"),  # bit mask of media outside the pool that also have its content (`Index.media`)
    ]
)
CHANGE = np.dtype([("record", "<i4"), ("block", "<i4"), *((name, BLOCK[name]) for name in BLOCK.names or ())])


def initial_rows(num_blocks: int) -> Rows:
    """Return the rows of all blocks before the first record."""
    rows = np.zeros(num_blocks, BLOCK)
    for name in ("owner", "allocated_in", "used_in", "content"):
        rows[name] = NONE
    return rows


def apply_changes(rows: Rows, changes: Rows) -> None:
    """Replace the rows of the blocks in `changes` (CHANGE, in log order). The last change of a block is used."""
    rows[changes["block"]] = changes[list(BLOCK.names or ())].astype(BLOCK)


def touched_blocks(record: StepRecord, state: State) -> Iterable[int]:
    """Return the blocks that the operations of `record` concern, without duplicates. `state`: state after it."""
    found: dict[int, None] = {}
    size, sequences = state.block_size, state.sequences
    for op in record.ops:
        if type(op) is Write:  # the most frequent operation
            first, end = op.start // size, (op.start + op.num_tokens - 1) // size + 1
            for table in own_tables(state, sequences[op.seq_id]):
                # if the sequence ended in this record, its table is empty, and `free` operations name its blocks
                found.update(dict.fromkeys(table[first:end]))
        elif type(op) in NAMES_BLOCK:
            found[getattr(op, "block_id", NONE)] = None
        elif type(op) is not Sample:
            found.update(dict.fromkeys(_blocks_of(op, record, state)))
    found.pop(RELEASED, None)
    return found


def change_rows(
    record: int,
    changed: dict[int, int],
    state: State,
    sequence_rows: dict[int, int],
    content_rows: dict[bytes, int],
) -> list[tuple[int, ...]]:
    """Return the rows of CHANGE for the changed blocks of a record.

    `changed`: block id -> `tiers`. `sequence_rows`: seq_id -> row. `content_rows`: hash -> row.
    """
    found: list[tuple[int, ...]] = []
    blocks = state.blocks
    for block_id, tiers in changed.items():
        block = blocks[block_id]
        owner, allocated_in, content = block.allocated_by, block.allocated_in, block.block_hash
        found.append(
            (
                record,
                block_id,
                NONE if owner is None else sequence_rows.get(owner, NONE),
                block.ref_count,
                len(block.token_ids),
                NONE if allocated_in is None else allocated_in,
                record,
                block.num_hits,
                NONE if content is None else content_rows.get(content, NONE),
                content is not None,
                tiers,
            )
        )
    return found


def _blocks_of(op: Op, record: StepRecord, state: State) -> Iterator[int]:
    match op:
        case Fork():
            yield from held_blocks(state.sequences[op.seq_id])
        case Copy():
            yield from (op.src, op.dst)
        case Lost() | KnownSince():
            for index in state.own_groups[record.instance]:
                group = state.block_groups[index]
                yield from range(group.first_block, group.first_block + group.num_blocks)
        case Stored() | Removed():
            if not op.outside:
                yield op.place
        case _:
            pass
