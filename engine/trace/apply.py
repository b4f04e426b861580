"""Folding a record into a state: what each operation means.

`static/js/trace/state.js` mirrors this file; shared golden traces hold both to the same state.
"""

from __future__ import annotations

from engine.trace.events import (
    RELEASED,
    Adjust,
    Admit,
    Allocate,
    Cache,
    Choose,
    Copy,
    Discard,
    Drop,
    Evict,
    Finish,
    Fork,
    Free,
    Lookup,
    Op,
    Preempt,
    QueueEnd,
    Rank,
    Release,
    Sample,
    Share,
    Submit,
    SwapIn,
    SwapOut,
    Write,
)
from engine.trace.records import Output, StepRecord
from engine.trace.state import (
    RECENT_LOOKUPS,
    Block,
    CpuBlock,
    Sequence,
    State,
    TraceStateError,
    copy_sequence,
    group_index,
    held_blocks,
)


def apply(state: State, record: StepRecord) -> State:
    """Fold `record` into `state`, in place, and return it.

    Raises:
        TraceStateError: an operation contradicts the state (a gap in the log, or a damaged producer).
    """
    if record.index != state.index + 1:
        raise TraceStateError(f"record {record.index} cannot follow record {state.index}")
    index, outputs = record.index, {(o.seq_id, o.token_id): o for o in record.outputs}
    position = -1
    try:
        for op in record.ops:
            position += 1
            if type(op) is Write:  # what a log has most of
                _apply_write(state, op)
            else:
                _apply_op(state, index, op, outputs)
    except (LookupError, ValueError, ArithmeticError) as error:
        name = op.__struct_config__.tag
        why = _missing(error.args[0]) if isinstance(error, KeyError) else str(error)
        raise TraceStateError(
            f"record {record.index}, operation {position} ({name}) contradicts the state: {why}", position
        ) from error
    sequences = state.sequences
    for entry in record.batch:
        if entry.seq_id not in sequences:
            raise TraceStateError(f"record {index} contradicts the state: its batch has a sequence {entry.seq_id}")
    state.index, state.step = index, record.step
    return state


def _apply_op(state: State, index: int, op: Op, outputs: dict[tuple[int, int], Output]) -> None:
    match op:
        case Sample():
            sequence = state.sequences[op.seq_id]
            if sequence.chosen and sequence.chosen[0][0] == len(sequence.token_ids):
                _, token_id = sequence.chosen.pop(0)
                _expect(op.token_id == token_id, f"token {token_id} was chosen for this position")
            output = outputs[op.seq_id, op.token_id]
            sequence.token_ids.append(op.token_id)
            sequence.token_bytes.append(output.token_bytes)
            sequence.cumulative_logprob += output.logprob
        case Submit():
            _expect(op.seq_id not in state.sequences, f"sequence {op.seq_id} exists already")
            state.sequences[op.seq_id] = Sequence(
                seq_id=op.seq_id,
                request_id=op.request_id,
                token_ids=list(op.prompt_token_ids),
                token_bytes=list(op.prompt_token_bytes),
                num_prompt_tokens=len(op.prompt_token_ids),
                block_tables=[[] for _ in state.block_groups],
                max_tokens=op.max_tokens,
                priority=op.priority,
                submitted_in=index,
            )
            _queue(state, op.queue_position, op.seq_id)
        case Admit():
            sequence = state.sequences[op.seq_id]
            state.waiting.remove(op.seq_id)
            state.running.append(op.seq_id)
            sequence.status = "running"
            sequence.num_cached_tokens = op.num_cached_tokens
            sequence.num_computed_tokens = op.num_cached_tokens + op.num_swapped_tokens
        case Lookup():
            preempted = state.sequences[op.seq_id].status == "preempted"
            if op.verdict in ("hit", "miss", "too_short") and not preempted:
                state.recent_lookups.append([op.num_tokens, op.num_hit_tokens])
                del state.recent_lookups[:-RECENT_LOOKUPS]
        case Allocate():
            block, group = _block(state, op.block_id), _group(state, op.block_id)
            queue = state.free_queues[group]
            _expect(queue[:1] == [op.block_id], f"block {op.block_id} is not the head of the free queue")
            queue.pop(0)
            _expect(block.block_hash is None, f"block {op.block_id} was allocated with its hash")
            block.ref_count, block.token_ids, block.logical = 1, [], op.logical
            block.allocated_by, block.allocated_in = op.seq_id, index
            block.num_hits, block.last_hit_in = 0, None
            sequence = state.sequences[op.seq_id]
            _set_table(sequence, group, op.logical, op.block_id, may_skip=bool(sequence.cpu_block_table))
        case Evict():
            block = _block(state, op.block_id)
            _expect(block.block_hash == op.block_hash, f"block {op.block_id} does not carry that hash")
            block.block_hash, block.token_ids = None, []
        case Share():
            block, group = _block(state, op.block_id), _group(state, op.block_id)
            if op.revived:
                state.free_queues[group].remove(op.block_id)
            block.ref_count += 1
            block.num_hits += 1
            block.last_hit_in = index
            _set_table(state.sequences[op.seq_id], group, op.logical, op.block_id, may_skip=True)
        case Fork():
            parent = state.sequences[op.parent_seq_id]
            _expect(op.seq_id not in state.sequences, f"sequence {op.seq_id} exists already")
            child = copy_sequence(parent)
            child.seq_id, child.request_id, child.submitted_in = op.seq_id, op.request_id, index
            child.parent_seq_id = op.parent_seq_id
            child.chosen = []
            state.sequences[op.seq_id] = child
            state.running.append(op.seq_id)
            for block_id in held_blocks(child):
                _block(state, block_id).ref_count += 1
        case Copy():
            _block(state, op.src).ref_count -= 1
            _block(state, op.dst).token_ids = list(_block(state, op.src).token_ids)
        case Cache():
            _block(state, op.block_id).block_hash = op.block_hash
        case Choose():
            sequence = state.sequences[op.seq_id]
            _expect(op.position >= len(sequence.token_ids), f"position {op.position} has its token already")
            others = [pair for pair in sequence.chosen if pair[0] != op.position]
            sequence.chosen = sorted([*others, [op.position, op.token_id]])
        case Adjust():
            for seq_id in op.seq_ids:
                state.sequences[seq_id].max_tokens = op.max_tokens
        case Free():
            table = _table(state, op.seq_id, op.block_id)
            _expect(table[-1:] == [op.block_id], f"block {op.block_id} is not the table's last")
            table.pop()
            while table[-1:] == [RELEASED]:
                table.pop()
            _let_go(state, op.block_id, op.to)
        case Release():
            table = _table(state, op.seq_id, op.block_id)
            _expect(0 <= op.logical < len(table) - 1, f"logical block {op.logical} is not before the table's last")
            _expect(table[op.logical] == op.block_id, f"block {op.block_id} is not at {op.logical}")
            table[op.logical] = RELEASED
            _let_go(state, op.block_id, op.to)
        case Preempt():
            sequence = state.sequences[op.seq_id]
            state.running.remove(op.seq_id)
            _queue(state, op.queue_position, op.seq_id)
            sequence.status = "preempted"
            sequence.num_preemptions += 1
            if op.mode == "recompute":
                sequence.num_computed_tokens = 0
        case SwapOut():
            sequence, cpu_block = state.sequences[op.seq_id], _cpu_block(state, op.cpu_block_id)
            table = _table(state, op.seq_id, op.block_id)
            _expect(table[op.logical] == op.block_id, f"block {op.block_id} is not at {op.logical}")
            _expect(cpu_block.seq_id is None, f"CPU block {op.cpu_block_id} is in use")
            cpu_block.seq_id, cpu_block.logical = op.seq_id, op.logical
            cpu_block.token_ids = list(_block(state, op.block_id).token_ids)
            sequence.cpu_block_table.append(op.cpu_block_id)
        case SwapIn():
            sequence = state.sequences[op.seq_id]
            table = _table(state, op.seq_id, op.block_id)
            _expect(table[op.logical] == op.block_id, f"block {op.block_id} is not at {op.logical}")
            _block(state, op.block_id).token_ids = _cpu_block(state, op.cpu_block_id).token_ids
            _free_cpu_block(state, sequence, op.cpu_block_id)
        case Drop():
            _free_cpu_block(state, state.sequences[op.seq_id], op.cpu_block_id)
        case Discard():
            state.sequences[op.seq_id].num_computed_tokens = 0
        case Finish():
            sequence = state.sequences[op.seq_id]
            (state.running if op.seq_id in state.running else state.waiting).remove(op.seq_id)
            state.finished.append(op.seq_id)
            sequence.status, sequence.finish_reason = "finished", op.reason
        case Rank():
            for rank, (seq_id, score) in enumerate(zip(op.seq_ids, op.scores, strict=True)):
                state.sequences[seq_id].rank, state.sequences[seq_id].score = rank, score
        case _:  # defer explains; it changes nothing
            pass


def _apply_write(state: State, op: Write) -> None:
    sequence, size, start = state.sequences[op.seq_id], state.block_size, op.start
    if sequence.num_computed_tokens != start:
        raise ValueError("another number of tokens is computed")
    token_ids, tables = sequence.token_ids, sequence.block_tables
    for position in range(start, start + op.num_tokens):
        logical, slot, token_id = position // size, position % size, token_ids[position]
        for table in tables:
            filled = _block(state, table[logical]).token_ids  # RELEASED is no block
            if slot == len(filled):
                filled.append(token_id)
            elif slot < len(filled):
                filled[slot] = token_id
            else:
                raise ValueError(f"slot {slot} of block {table[logical]} would leave a hole")
    if op.num_tokens > 0:
        sequence.num_computed_tokens = start + op.num_tokens


def _missing(key: int | tuple[int, int]) -> str:
    """What was looked up and is not there: a sequence, or the output that belongs to a sampled token."""
    return f"there is no sequence {key}" if isinstance(key, int) else f"sequence {key[0]} has no output {key[1]}"


def _queue(state: State, position: int, seq_id: int) -> None:
    _expect(0 <= position <= len(state.waiting), f"the waiting queue has no position {position}")
    state.waiting.insert(position, seq_id)


def _group(state: State, block_id: int) -> int:
    return group_index(state.block_groups, block_id)


def _block(state: State, block_id: int) -> Block:
    if not 0 <= block_id < len(state.blocks):  # words only when they are needed: this is asked for every token
        raise ValueError(f"there is no block {block_id}" if block_id != RELEASED else "that block is released")
    return state.blocks[block_id]


def _table(state: State, seq_id: int, block_id: int) -> list[int]:
    """The sequence's table in the block's group."""
    _block(state, block_id)
    return state.sequences[seq_id].block_tables[_group(state, block_id)]


def _cpu_block(state: State, cpu_block_id: int) -> CpuBlock:
    _expect(0 <= cpu_block_id < len(state.cpu_blocks), f"there is no CPU block {cpu_block_id}")
    return state.cpu_blocks[cpu_block_id]


def _let_go(state: State, block_id: int, to: QueueEnd | None) -> None:
    block = _block(state, block_id)
    block.ref_count -= 1
    _expect((to is None) == (block.ref_count > 0), f"block {block_id} has {block.ref_count} owners left")
    if block.block_hash is None and block.ref_count == 0:
        block.token_ids = []
    if to == "front":
        state.free_queues[_group(state, block_id)].insert(0, block_id)
    elif to == "back":
        state.free_queues[_group(state, block_id)].append(block_id)


def _free_cpu_block(state: State, sequence: Sequence, cpu_block_id: int) -> None:
    _expect(sequence.cpu_block_table[:1] == [cpu_block_id], f"CPU block {cpu_block_id} is not the sequence's first")
    sequence.cpu_block_table.pop(0)
    state.cpu_blocks[cpu_block_id] = CpuBlock(cpu_block_id=cpu_block_id)


def _set_table(sequence: Sequence, group: int, logical: int, block_id: int, may_skip: bool) -> None:
    """Append at the end of a group's table, or replace in place (copy-on-write).

    `may_skip`: what is between its end and `logical` is RELEASED. A hit under a window begins at what its queries see;
    who comes back from the CPU store gets blocks for what is kept there.
    """
    _expect(0 <= logical <= len(sequence.token_ids), f"there is no logical block {logical}")
    table = sequence.block_tables[group]
    if may_skip:
        table += [RELEASED] * (logical - len(table))
    _expect(logical <= len(table), f"logical block {logical} would leave a hole in the table")
    table[logical : logical + 1] = [block_id]


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
