"""Keyframes of a log: stored states, so that a state can be read without applying every record before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from engine.trace import codec
from engine.trace.geometry import Geometry
from engine.trace.limits import MAX_BLOCKS
from engine.trace.operations import RELEASED
from engine.trace.records import BlockGroup
from engine.trace.state import Sequence, State


def read_keyframe(payload: bytes, pools: Geometry, index: int) -> State:
    """Decode the keyframe after record `index` of a log with these pools.

    Keyframes of logs without groups of layers have one table per sequence and one free queue, which are converted.

    Raises:
        TraceFormatError: a field is wrong, or names a missing block, sequence or table.
    """
    state = _decoded(payload, pools.groups)
    for message in _wrong_in_shape(state, pools, index):
        raise codec.TraceFormatError(f"the keyframe after record {index} does not match this log: {message}")
    return state


def _decoded(payload: bytes, groups: list[BlockGroup]) -> State:
    try:
        fields: Any = msgspec.msgpack.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise codec.TraceFormatError(f"not a valid State: {error}") from error
    if not isinstance(fields, dict) or "free_queue" not in fields:
        return codec.decode(payload, State)
    fields["free_queues"], fields["block_groups"] = [fields.pop("free_queue")], groups
    sequences = fields.get("sequences")
    for sequence in sequences.values() if isinstance(sequences, dict) else ():
        if isinstance(sequence, dict):
            sequence["block_tables"] = [sequence.pop("block_table", [])]
    return codec.decode(codec.encode(fields), State)


def _wrong_in_shape(state: State, pools: Geometry, index: int) -> Iterator[str]:
    """Yield errors that would make a reader index out of range. `check` verifies that the state is correct."""
    if state.index != index:
        yield f"its index is {state.index}"
    if state.block_size != pools.block_size or state.block_groups != pools.groups:
        yield "its block size or groups differ from those of the header"
    if state.finished_kept != pools.finished_kept:
        yield f"its finished_kept is {state.finished_kept}, not {pools.finished_kept} as in the header"
    num_blocks, num_cpu_blocks = pools.num_blocks, pools.swap_space * len(pools.groups)
    if [block.block_id for block in state.blocks] != list(range(num_blocks)):
        yield f"it does not have the {num_blocks} blocks of the pools in order"
    if [block.cpu_block_id for block in state.cpu_blocks] != list(range(num_cpu_blocks)):
        yield f"it does not have the {num_cpu_blocks} blocks of the CPU store in order"
    contents = [block.token_ids for block in state.blocks] + [block.token_ids for block in state.cpu_blocks]
    contents += [block.token_ids for block in state.outside]
    if any(len(content) > pools.block_size for content in contents):
        yield f"a block holds more than {pools.block_size} tokens"
    if [block.place for block in state.outside] != list(range(len(state.outside))) or len(state.outside) > MAX_BLOCKS:
        yield "it does not have the places outside the pools in order"
    if any(not 0 <= block.instance <= pools.groups[-1].instance for block in state.outside):
        yield "a place outside the pools is of an instance that does not exist"
    yield from _wrong_in_queues(state)
    for queue in (state.waiting, state.receiving, state.running, state.holding, state.finished):
        if any(seq_id not in state.sequences for seq_id in queue):
            yield "a queue names a sequence that does not exist"
    for seq_id, sequence in state.sequences.items():
        if sequence.seq_id != seq_id:
            yield f"sequence {sequence.seq_id} is stored under the key {seq_id}"
        yield from (f"sequence {seq_id} {message}" for message in _wrong_in_sequence(sequence, state))
    if any(len(pair) != 2 for pair in state.recent_lookups):
        yield "recent_lookups are not pairs"


def _wrong_in_queues(state: State) -> Iterator[str]:
    """Check that each free queue has exactly the blocks of its group with ref_count 0, each once."""
    if len(state.free_queues) != len(state.block_groups):
        yield f"it has {len(state.free_queues)} free queues for {len(state.block_groups)} groups of layers"
        return
    for queue, group in zip(state.free_queues, state.block_groups, strict=True):
        blocks = state.blocks[group.first_block : group.first_block + group.num_blocks]
        if len(set(queue)) != len(queue) or set(queue) != {b.block_id for b in blocks if b.ref_count == 0}:
            yield "the free queue does not hold each block without an owner exactly once"


def _wrong_in_sequence(sequence: Sequence, state: State) -> Iterator[str]:
    if len(sequence.token_ids) != len(sequence.token_bytes):
        yield f"has {len(sequence.token_ids)} token_ids, but {len(sequence.token_bytes)} token_bytes"
    if not 0 <= sequence.num_computed_tokens <= len(sequence.token_ids):
        yield f"has {sequence.num_computed_tokens} computed tokens of {len(sequence.token_ids)}"
    if not 0 <= sequence.num_prompt_tokens <= len(sequence.token_ids):
        yield f"has {sequence.num_prompt_tokens} prompt tokens of {len(sequence.token_ids)}"
    if len(sequence.block_tables) != len(state.block_groups):
        yield f"has {len(sequence.block_tables)} block tables for {len(state.block_groups)} groups of layers"
    for table, group in zip(sequence.block_tables, state.block_groups, strict=False):
        ids = range(group.first_block, group.first_block + group.num_blocks)
        if any(block_id not in ids and block_id != RELEASED for block_id in table):
            yield "has a block table that names a block of no pool"
    if any(not 0 <= block_id < len(state.cpu_blocks) for block_id in sequence.cpu_block_table):
        yield "has a block of the CPU store that does not exist"
    if any(len(pair) != 2 for pair in sequence.chosen):
        yield "has chosen tokens that are not pairs"
