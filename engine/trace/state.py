"""The state of a run as a pure function of its log: `apply` folds one record into it.

`static/js/trace/state.js` mirrors this file; shared golden traces hold both to the same state.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

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
    FinishReason,
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
from engine.trace.records import BlockGroup, Header, Memory, Output, StepRecord

SequenceStatus = Literal["waiting", "running", "preempted", "finished"]
RECENT_LOOKUPS = 100  # lookups that the hit rate is taken over
MAX_BLOCKS = 1 << 20  # of a pool or a CPU store; a header that says more is taken for damage rather than allocated


class Block(Struct, kw_only=True):
    """One physical block. `token_ids`: what its filled slots hold, slot 0 first; free without a hash = empty."""

    block_id: int
    ref_count: int = 0
    block_hash: bytes | None = None
    token_ids: list[int] = []
    logical: int | None = None  # its index in the block tables that contain it
    allocated_by: int | None = None  # seq_id of the last allocation
    allocated_in: int | None = None  # record index of the last allocation
    num_hits: int = 0  # prefix-cache hits since that allocation
    last_hit_in: int | None = None  # record index


class CpuBlock(Struct, kw_only=True):
    """One block of the CPU store; `token_ids`: what it keeps for a swapped-out sequence."""

    cpu_block_id: int
    seq_id: int | None = None  # None = free
    logical: int | None = None
    token_ids: list[int] = []


class Sequence(Struct, kw_only=True):
    """One sequence of a request."""

    seq_id: int
    request_id: str
    status: SequenceStatus = "waiting"
    token_ids: list[int] = []  # prompt, then output
    token_bytes: list[bytes] = []
    num_prompt_tokens: int = 0
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0  # at its last admission
    block_tables: list[list[int]] = []  # for each group of layers; RELEASED where a block is gone
    num_preemptions: int = 0
    max_tokens: int = 0
    priority: int = 0
    finish_reason: FinishReason | None = None
    submitted_in: int = 0  # record index
    parent_seq_id: int | None = None  # the sequence it was forked from
    cumulative_logprob: float = 0.0  # of its output tokens, raw distribution; a fork begins with its parent's
    cpu_block_table: list[int] = []  # while it is swapped out
    rank: int | None = None  # among the sequences of its request, 0 = best; once the request is done
    score: float | None = None  # what it was ranked by
    chosen: list[list[int]] = []  # [position, token id] of tokens to come that were settled from outside


class State(Struct, kw_only=True):
    """Everything that is true after record `index` (-1: before the first)."""

    index: int = -1
    step: int = 0
    block_size: int
    block_groups: list[BlockGroup]
    blocks: list[Block]  # of all groups, by id
    free_queues: list[list[int]]  # for each group: block ids, head (allocated next) first
    waiting: list[int] = []  # seq ids, head (admitted next) first; preempted ones included
    running: list[int] = []  # seq ids in order of admission
    finished: list[int] = []  # seq ids in order of finishing
    sequences: dict[int, Sequence] = {}
    cpu_blocks: list[CpuBlock] = []  # the CPU store, by id
    recent_lookups: list[list[int]] = []  # [num_tokens, num_hit_tokens] of the last RECENT_LOOKUPS first admissions


class TraceStateError(ValueError):
    """A record does not follow from the state before it. `operation`: which of its operations, None = none of them."""

    def __init__(self, message: str, operation: int | None = None) -> None:
        super().__init__(message)
        self.operation = operation


def initial_state(header: Header) -> State:
    """State before the first record: every block free, ids in ascending order in the free queues."""
    block_size = _setting(header, "block_size", 1, 1 << 62)
    groups = _groups(header)
    swap_space = _setting(header, "swap_space", 0, MAX_BLOCKS) if header.engine.get("swap_space") else 0
    return empty_state(block_size, groups, swap_space)


def empty_state(block_size: int, groups: list[BlockGroup], swap_space: int = 0) -> State:
    """Every block free; each group has `swap_space` blocks in the CPU store."""
    return State(
        block_size=block_size,
        block_groups=groups,
        blocks=[Block(block_id=i) for i in range(sum(group.num_blocks for group in groups))],
        free_queues=[list(range(g.first_block, g.first_block + g.num_blocks)) for g in groups],
        cpu_blocks=[CpuBlock(cpu_block_id=i) for i in range(swap_space * len(groups))],
    )


def _groups(header: Header) -> list[BlockGroup]:
    """The header's groups of layers; a log without any has one of all layers."""
    num_blocks = _setting(header, "num_blocks", 1, MAX_BLOCKS)
    if not header.block_groups:
        layers = list(range(min(header.model.num_layers, MAX_BLOCKS)))
        bytes_each = header.kv_bytes_per_token
        return [BlockGroup(layers=layers, first_block=0, num_blocks=num_blocks, kv_bytes_per_token=bytes_each)]
    first = 0
    for group in header.block_groups:
        if group.first_block != first or not 1 <= group.num_blocks <= MAX_BLOCKS - first:
            raise TraceStateError(f"the header's block groups do not follow each other at block {first}")
        first += group.num_blocks
    return header.block_groups


def _setting(header: Header, name: str, least: int, most: int) -> int:
    value = header.engine.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise TraceStateError(
            f"the header's engine.{name} must be a whole number from {least} to {most}, not {value!r}"
        )
    return value


def copy_state(state: State) -> State:
    """An independent copy: `apply` on one leaves the other alone."""
    return State(
        index=state.index,
        step=state.step,
        block_size=state.block_size,
        block_groups=state.block_groups,
        blocks=[replace(b, token_ids=list(b.token_ids)) for b in state.blocks],
        free_queues=[list(queue) for queue in state.free_queues],
        waiting=list(state.waiting),
        running=list(state.running),
        finished=list(state.finished),
        sequences={i: _copy_sequence(s) for i, s in state.sequences.items()},
        cpu_blocks=[replace(b, token_ids=list(b.token_ids)) for b in state.cpu_blocks],
        recent_lookups=list(state.recent_lookups),  # the pairs themselves never change
    )


def apply(state: State, record: StepRecord) -> State:
    """Fold `record` into `state`, in place, and return it.

    Raises:
        TraceStateError: an operation contradicts the state (a gap in the log, or a damaged producer).
    """
    if record.index != state.index + 1:
        raise TraceStateError(f"record {record.index} cannot follow record {state.index}")
    outputs = {(o.seq_id, o.token_id): o for o in record.outputs}
    for position, op in enumerate(record.ops):
        try:
            _apply_op(state, record.index, op, outputs)
        except (LookupError, ValueError, ArithmeticError) as error:
            name = op.__struct_config__.tag
            why = _missing(error.args[0]) if isinstance(error, KeyError) else str(error)
            raise TraceStateError(
                f"record {record.index}, operation {position} ({name}) contradicts the state: {why}", position
            ) from error
    state.index, state.step = record.index, record.step
    return state


def memory_figures(state: State) -> Memory:
    """The pool in numbers: blocks and slots are counted, bytes are slots times the group's bytes per token."""
    return Memory.total([_group_memory(state, index) for index in range(len(state.block_groups))])


def _group_memory(state: State, index: int) -> Memory:
    group, size, num_groups = state.block_groups[index], state.block_size, len(state.block_groups)
    blocks = state.blocks[group.first_block : group.first_block + group.num_blocks]
    held = [b for b in blocks if b.ref_count > 0]
    swap_blocks = len(state.cpu_blocks) // num_groups
    return Memory.counted(
        num_blocks=len(blocks),
        block_size=size,
        blocks_held=len(held),
        blocks_cached=sum(1 for b in blocks if b.ref_count == 0 and b.block_hash is not None),
        tokens_held=sum(len(b.token_ids) for b in held),
        tokens_logical=sum(_tokens_in_table(state.sequences[i], index, size) for i in state.running),
        kv_bytes_per_token=group.kv_bytes_per_token,
        swap_blocks=swap_blocks,
        swap_blocks_held=sum(
            1 for b in state.cpu_blocks[index * swap_blocks : (index + 1) * swap_blocks] if b.seq_id is not None
        ),
    )


def _tokens_in_table(sequence: Sequence, group: int, block_size: int) -> int:
    """Computed tokens whose block the sequence still has in a group; a released block was full."""
    return sequence.num_computed_tokens - sequence.block_tables[group].count(RELEASED) * block_size


def recent_hit_rate(state: State) -> float | None:
    """Tokens that hit over tokens asked for, in the recent lookups of first admissions; None: nobody asked yet.

    As vLLM counts it: every token of a prompt is asked for, though the last one can never hit.
    """
    asked = sum(num_tokens for num_tokens, _ in state.recent_lookups)
    return sum(num_hit for _, num_hit in state.recent_lookups) / asked if asked else None


def _missing(key: int | tuple[int, int]) -> str:
    """What was looked up and is not there: a sequence, or the output that belongs to a sampled token."""
    return f"there is no sequence {key}" if isinstance(key, int) else f"sequence {key[0]} has no output {key[1]}"


def _apply_op(state: State, index: int, op: Op, outputs: dict[tuple[int, int], Output]) -> None:
    match op:
        case Write():  # first what a log has most of
            _apply_write(state, op)
        case Sample():
            sequence = state.sequences[op.seq_id]
            if sequence.chosen and sequence.chosen[0][0] == len(sequence.token_ids):
                _, token_id = sequence.chosen.pop(0)
                _expect(op.token_id == token_id, f"token {token_id} was chosen for this position")
            sequence.token_ids.append(op.token_id)
            sequence.token_bytes.append(outputs[op.seq_id, op.token_id].token_bytes)
            sequence.cumulative_logprob += outputs[op.seq_id, op.token_id].logprob
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
            child = _copy_sequence(parent)
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
    sequence, size = state.sequences[op.seq_id], state.block_size
    _expect(sequence.num_computed_tokens == op.start, "another number of tokens is computed")
    for position in range(op.start, op.start + op.num_tokens):
        logical, slot = divmod(position, size)
        token_id = sequence.token_ids[position]
        for table in sequence.block_tables:
            block_id = table[logical]
            filled = _block(state, block_id).token_ids  # RELEASED is no block
            if slot == len(filled):
                filled.append(token_id)
            elif slot < len(filled):
                filled[slot] = token_id
            else:
                raise ValueError(f"slot {slot} of block {block_id} would leave a hole")
    sequence.num_computed_tokens = op.start + max(0, op.num_tokens)


def _queue(state: State, position: int, seq_id: int) -> None:
    _expect(0 <= position <= len(state.waiting), f"the waiting queue has no position {position}")
    state.waiting.insert(position, seq_id)


def _block(state: State, block_id: int) -> Block:
    if not 0 <= block_id < len(state.blocks):  # words only when they are needed: this is asked for every token
        raise ValueError(f"there is no block {block_id}" if block_id != RELEASED else "that block is released")
    return state.blocks[block_id]


def _group(state: State, block_id: int) -> int:
    return next(i for i, g in enumerate(state.block_groups) if block_id < g.first_block + g.num_blocks)


def group_of(state: State, block_id: int) -> BlockGroup:
    """The group of layers that the block belongs to."""
    return state.block_groups[_group(state, _block(state, block_id).block_id)]


def _table(state: State, seq_id: int, block_id: int) -> list[int]:
    """The sequence's table in the block's group."""
    _block(state, block_id)
    return state.sequences[seq_id].block_tables[_group(state, block_id)]


def held_blocks(sequence: Sequence) -> list[int]:
    """The blocks in its tables, group after group, in logical order."""
    return [block_id for table in sequence.block_tables for block_id in table if block_id != RELEASED]


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


def _copy_sequence(sequence: Sequence) -> Sequence:
    return replace(
        sequence,
        token_ids=list(sequence.token_ids),
        token_bytes=list(sequence.token_bytes),
        block_tables=[list(table) for table in sequence.block_tables],
        cpu_block_table=list(sequence.cpu_block_table),
        chosen=list(sequence.chosen),  # the pairs themselves never change
    )


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
