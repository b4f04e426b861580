"""Invariants of a whole state, independent of the operations that led to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engine.trace.state import State, held_blocks


def wrong_in_state(state: State, is_observed: bool = False) -> Iterator[str]:
    """Yield each contradiction as a sentence. `is_observed`: the state is of a monitored server and may have gaps."""
    yield from _owners(state)
    yield from _queues(state)
    yield from _contents(state, is_observed)


def num_items(state: State) -> int:
    """Return the cost of `wrong_in_state`, in visited items. Comparing 16 tokens counts as one item."""
    tables = sum(len(table) + 1 for sequence in state.sequences.values() for table in sequence.block_tables)
    tokens = sum(sequence.num_computed_tokens * len(sequence.block_tables) for sequence in state.sequences.values())
    return len(state.blocks) + len(state.sequences) + tables + tokens // 16


def _owners(state: State) -> Iterator[str]:
    """Check that each ref_count equals the block's table entries, and that every unowned block is free exactly once."""
    entries = Counter(b for s in state.sequences.values() for b in held_blocks(s))
    queued = Counter(b for queue in state.free_queues for b in queue)
    for block in state.blocks:
        owners = entries.pop(block.block_id, 0)
        if block.ref_count != owners:
            yield f"block {block.block_id} has ref_count {block.ref_count}, but {owners} block table entries name it"
        times = queued.pop(block.block_id, 0)
        if times != (block.ref_count == 0):
            yield (
                f"block {block.block_id} has ref_count {block.ref_count}, but is in the free queue "
                f"{times} time{'' if times == 1 else 's'}"
            )
    for block_id in [*entries, *queued]:
        yield f"there is no block {block_id}, but a block table or the free queue names it"


def _queues(state: State) -> Iterator[str]:
    """Check that every sequence is exactly once in the list of its status."""
    queues = {
        "waiting": state.waiting,
        "preempted": state.waiting,
        "receiving": state.receiving,
        "running": state.running,
        "finished": state.finished,
    }
    counts = {id(queue): Counter(queue) for queue in queues.values()}
    for sequence in state.sequences.values():
        if counts[id(queues[sequence.status])].pop(sequence.seq_id, 0) != 1:
            name = "waiting" if sequence.status == "preempted" else sequence.status
            yield f"sequence {sequence.seq_id} is {sequence.status}, but not exactly once in the list {name}"
    for count in counts.values():
        for seq_id in count:
            yield f"sequence {seq_id} is in a list that does not match its status"
    for seq_id, times in Counter(state.holding).items():
        if times != 1 or state.sequences[seq_id].status != "finished":
            yield f"sequence {seq_id} is in the list holding, but not finished or listed {times} times"
    for sequence in state.sequences.values():
        if sequence.status == "finished" and sequence.seq_id not in state.holding and any(sequence.block_tables):
            yield f"sequence {sequence.seq_id} is finished and has blocks, but is not in the list holding"


def _contents(state: State, is_observed: bool) -> Iterator[str]:
    """Check that filled slots are within their block and match the sequences' tokens."""
    size = state.block_size
    for block in state.blocks:
        filled = len(block.token_ids)
        if filled > size:
            yield f"block {block.block_id} has {filled} filled slots, but only {size} slots"
        elif block.ref_count == 0 and block.block_hash is not None and filled != size and not is_observed:
            yield f"block {block.block_id} is cached with {filled} of its {size} slots filled"
    for sequence in state.sequences.values():
        computed, tokens = sequence.num_computed_tokens, sequence.token_ids
        if not 0 <= computed <= len(tokens):
            yield f"sequence {sequence.seq_id} has {computed} computed tokens of {len(tokens)}"
            continue
        entries = [entry for table in sequence.block_tables for entry in enumerate(table)]
        for logical, block_id in entries:
            if not 0 <= block_id < len(state.blocks):
                continue
            expected = tokens[logical * size : min((logical + 1) * size, computed)]
            if state.blocks[block_id].token_ids[: len(expected)] != expected:
                yield (
                    f"block {block_id} is in the block table of sequence {sequence.seq_id} at position "
                    f"{logical * size}, but holds other tokens"
                )
