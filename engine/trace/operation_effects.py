"""Effect of each operation type on a state, one function per type.

`static/js/core/state_operations.js` mirrors this file. Tests compare both on shared golden traces.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from engine.trace import observing
from engine.trace.instances import lose_instance, own_tables, queue_positions
from engine.trace.limits import UNITS_PER_SLOT, Budget
from engine.trace.operations import (
    RELEASED,
    Adjust,
    Admit,
    Allocate,
    Arrive,
    Await,
    Cache,
    Choose,
    Copy,
    Defer,
    Discard,
    Draft,
    Drop,
    Evict,
    Expire,
    Finish,
    Forget,
    Fork,
    Free,
    Hold,
    Keep,
    KnownSince,
    Load,
    Lookup,
    LookupExternal,
    Lost,
    Op,
    Preempt,
    Rank,
    Receive,
    Release,
    Removed,
    Requeue,
    Reserve,
    Sample,
    Send,
    Share,
    Store,
    Stored,
    Submit,
    SwapIn,
    SwapOut,
    TakeBack,
    TransferFailed,
    Verify,
    Write,
)
from engine.trace.record_outputs import RecordOutputs
from engine.trace.state import (
    RECENT_LOOKUPS,
    Sequence,
    State,
    copy_sequence,
    held_blocks,
)
from engine.trace.tables import (
    block_of,
    check_fragmented,
    cpu_block_of,
    entry_of,
    expect,
    free_cpu_block,
    group_of,
    is_of_states,
    remove_owner,
    requeue,
    reserve_blocks,
    set_table,
    table_of,
)

T = TypeVar("T")
R = TypeVar("R", bound=Copy | None)


@dataclass(slots=True)
class RecordContext:
    """Context of the record whose operations are applied."""

    index: int
    instance: int
    outputs: RecordOutputs
    budget: Budget  # copy budget of the log
    drafts: dict[int, list[int]] = field(default_factory=dict)  # by seq_id


# Operation type -> function. Each function raises LookupError or ValueError for an operation that contradicts the
# state. If an allocation replaces a shared block, it returns the `copy` that must follow.
OPERATIONS: dict[type, Callable[[State, Any, RecordContext], Copy | None]] = {}


def _on(kind: type[T]) -> Callable[[Callable[[State, T, RecordContext], R]], Callable[[State, T, RecordContext], R]]:
    """Register a function for operations of type `kind`."""

    def register(function: Callable[[State, T, RecordContext], R]) -> Callable[[State, T, RecordContext], R]:
        OPERATIONS[kind] = function
        return function

    return register


@_on(Free)
def _free(state: State, op: Free, step: RecordContext) -> None:
    table = table_of(state, op.seq_id, op.block_id)
    if not table or table[-1] != op.block_id:
        raise ValueError(f"block {op.block_id} is not the last block of the table")
    table.pop()
    while table and table[-1] == RELEASED:
        table.pop()
    remove_owner(state, op.block_id, op.to)


@_on(Allocate)
def _allocate(state: State, op: Allocate, step: RecordContext) -> Copy | None:
    block, group = block_of(state, op.block_id), group_of(state, op.block_id)
    queue = state.free_queues[group]
    if not queue or queue[0] != op.block_id:
        raise ValueError(f"block {op.block_id} is not the head of the free queue")
    state.free_order.pop_head(queue)
    if block.block_hash is not None:
        raise ValueError(f"block {op.block_id} still has its hash")
    block.ref_count, block.token_ids, block.logical = 1, [], op.logical
    block.allocated_by, block.allocated_in = op.seq_id, step.index
    block.num_hits, block.last_hit_in = 0, None
    sequence = state.sequences[op.seq_id]
    has_gaps = bool(sequence.cpu_block_table) or op.reason in ("load", "receive") or is_of_states(state, group)
    shared = set_table(sequence, group, op.logical, op.block_id, has_gaps, step.budget)
    if shared is not None:
        return Copy(seq_id=op.seq_id, logical=op.logical, src=shared, dst=op.block_id)
    return None


@_on(Cache)
def _cache(state: State, op: Cache, step: RecordContext) -> None:
    block_of(state, op.block_id).block_hash = op.block_hash


@_on(Evict)
def _evict(state: State, op: Evict, step: RecordContext) -> None:
    block = block_of(state, op.block_id)
    if block.block_hash != op.block_hash:
        raise ValueError(f"block {op.block_id} does not have that hash")
    block.block_hash, block.token_ids = None, []


@_on(Share)
def _share(state: State, op: Share, step: RecordContext) -> None:
    block, group = block_of(state, op.block_id), group_of(state, op.block_id)
    if op.revived != (block.ref_count == 0):
        raise ValueError(f"block {op.block_id} has {block.ref_count} owners")
    if op.revived:
        state.free_order.remove(state.free_queues[group], op.block_id)
    block.ref_count += 1
    block.num_hits += 1
    block.last_hit_in = step.index
    before = set_table(state.sequences[op.seq_id], group, op.logical, op.block_id, True, step.budget)
    expect(before is None, f"block {before} is at logical block {op.logical} already")


@_on(Submit)
def _submit(state: State, op: Submit, step: RecordContext) -> None:
    _new(state, op.seq_id)
    num_tokens, num_texts = len(op.prompt_token_ids), len(op.prompt_token_bytes)
    expect(num_tokens == num_texts, f"{num_tokens} prompt tokens stand for {num_texts} texts")
    state.sequences[op.seq_id] = Sequence(
        seq_id=op.seq_id,
        request_id=op.request_id,
        token_ids=list(op.prompt_token_ids),
        token_bytes=list(op.prompt_token_bytes),
        num_prompt_tokens=num_tokens,
        block_tables=[[] for _ in state.block_groups],
        max_tokens=op.max_tokens,
        priority=op.priority,
        submitted_in=step.index,
        transfer=op.transfer,
        instance=step.instance,
    )
    _queue(state, op.queue_position, op.seq_id)


@_on(Admit)
def _admit(state: State, op: Admit, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    state.waiting.remove(op.seq_id)
    state.running.append(op.seq_id)
    sequence.status = "running"
    computed = op.num_cached_tokens + op.num_swapped_tokens + op.num_external_tokens
    _expect_computed(sequence, op.num_cached_tokens)
    _expect_computed(sequence, computed)
    sequence.num_cached_tokens, sequence.num_computed_tokens = op.num_cached_tokens, computed


@_on(Lookup)
def _lookup(state: State, op: Lookup, step: RecordContext) -> None:
    preempted = state.sequences[op.seq_id].status == "preempted"
    if op.verdict in ("hit", "miss", "too_short") and not preempted:
        state.recent_lookups.append([op.num_tokens, op.num_hit_tokens])
        del state.recent_lookups[:-RECENT_LOOKUPS]


@_on(Reserve)
def _reserve(state: State, op: Reserve, step: RecordContext) -> None:
    reserve_blocks(state, op.seq_id, op.block_id, op.num_blocks, op.hole_blocks, step.budget)


@_on(Requeue)
def _requeue(state: State, op: Requeue, step: RecordContext) -> None:
    requeue(state, op.block_ids, step.budget)


@_on(Fork)
def _fork(state: State, op: Fork, step: RecordContext) -> None:
    parent = state.sequences[op.parent_seq_id]
    expect(parent.status == "running", f"sequence {op.parent_seq_id} is {parent.status}; only a running one forks")
    _new(state, op.seq_id)
    step.budget.spend(2 * len(parent.token_ids) + sum(map(len, parent.block_tables)) + len(parent.forgotten))
    child = copy_sequence(parent)
    child.seq_id, child.request_id, child.submitted_in = op.seq_id, op.request_id, step.index
    child.parent_seq_id = op.parent_seq_id
    child.chosen = []
    state.sequences[op.seq_id] = child
    state.running.append(op.seq_id)
    for block_id in held_blocks(child):
        block_of(state, block_id).ref_count += 1


@_on(Copy)
def _copy(state: State, op: Copy, step: RecordContext) -> None:
    src, dst = block_of(state, op.src), block_of(state, op.dst)
    entry_of(state, op.seq_id, op.dst, op.logical)
    expect(src.ref_count > 1, f"block {op.src} has {src.ref_count} owners; only shared blocks are copied")
    step.budget.spend(UNITS_PER_SLOT * len(src.token_ids))
    src.ref_count -= 1
    dst.token_ids = list(src.token_ids)


@_on(Choose)
def _choose(state: State, op: Choose, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    expect(op.position >= len(sequence.token_ids), f"position {op.position} has its token already")
    at = bisect_left(sequence.chosen, op.position, key=lambda pair: pair[0])
    replaces = any(position == op.position for position, _ in sequence.chosen[at : at + 1])
    sequence.chosen[at : at + replaces] = [[op.position, op.token_id]]


@_on(Adjust)
def _adjust(state: State, op: Adjust, step: RecordContext) -> None:
    for seq_id in op.seq_ids:
        state.sequences[seq_id].max_tokens = op.max_tokens


@_on(Release)
def _release(state: State, op: Release, step: RecordContext) -> None:
    table = entry_of(state, op.seq_id, op.block_id, op.logical)
    expect(op.logical < len(table) - 1, f"logical block {op.logical} is the last entry of the table")
    table[op.logical] = RELEASED
    remove_owner(state, op.block_id, op.to)


@_on(Forget)
def _forget(state: State, op: Forget, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    expect(op.at == sequence.num_computed_tokens, f"{sequence.num_computed_tokens} tokens are computed, not {op.at}")
    parts = op.positions, op.scores, op.ranks, op.lowest_kept
    expect(len({len(part) for part in parts}) == 1, "its lists have different numbers of KV heads")
    for own in zip(op.positions, op.scores, op.ranks, strict=True):
        expect(len({len(part) for part in own}) == 1, "a head does not have a score and a rank for each position")
        expect(all(0 <= position < op.at for position in own[0]), f"a position is not among the {op.at} computed ones")
    sequence.forgotten.append(op)


@_on(Keep)
def _pin(state: State, op: Keep, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    expect(0 <= op.position < len(sequence.token_ids), f"sequence {op.seq_id} has no token at {op.position}")
    expect(op.position not in sequence.pinned, f"position {op.position} is kept already")
    insort(sequence.pinned, op.position)


@_on(Preempt)
def _preempt(state: State, op: Preempt, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    state.running.remove(op.seq_id)
    _queue(state, op.queue_position, op.seq_id)
    sequence.status = "preempted"
    sequence.num_preemptions += 1
    if op.mode == "recompute":
        sequence.num_computed_tokens = 0


@_on(SwapOut)
def _swap_out(state: State, op: SwapOut, step: RecordContext) -> None:
    sequence, cpu_block = state.sequences[op.seq_id], cpu_block_of(state, op.cpu_block_id)
    content = _content(state, op, step)
    expect(cpu_block.seq_id is None, f"CPU block {op.cpu_block_id} is in use")
    cpu_block.seq_id, cpu_block.logical = op.seq_id, op.logical
    cpu_block.token_ids = list(content)
    sequence.cpu_block_table.append(op.cpu_block_id)


@_on(SwapIn)
def _swap_in(state: State, op: SwapIn, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    _content(state, op, step)
    step.budget.spend(UNITS_PER_SLOT * len(cpu_block_of(state, op.cpu_block_id).token_ids))
    block_of(state, op.block_id).token_ids = cpu_block_of(state, op.cpu_block_id).token_ids
    free_cpu_block(state, sequence, op.cpu_block_id)


@_on(Load)
def _load(state: State, op: Load, step: RecordContext) -> None:
    sequence, block, size = state.sequences[op.seq_id], block_of(state, op.block_id), state.block_size
    entry_of(state, op.seq_id, op.block_id, op.logical)
    content = sequence.token_ids[op.logical * size : (op.logical + 1) * size]
    expect(len(content) == size, f"sequence {op.seq_id} has no full block {op.logical}")
    expect(not block.token_ids, f"block {op.block_id} has content already")
    step.budget.spend(UNITS_PER_SLOT * size)
    block.token_ids = content


@_on(Await)
def _await(state: State, op: Await, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    state.waiting.remove(op.seq_id)
    state.receiving.append(op.seq_id)
    sequence.status = "receiving"
    _expect_computed(sequence, op.num_cached_tokens)
    sequence.num_cached_tokens = sequence.num_computed_tokens = op.num_cached_tokens


@_on(Receive)
def _receive(state: State, op: Receive, step: RecordContext) -> None:
    sequence, block, size = state.sequences[op.seq_id], block_of(state, op.block_id), state.block_size
    entry_of(state, op.seq_id, op.block_id, op.logical)
    content = sequence.token_ids[op.logical * size : op.logical * size + op.num_tokens]
    expect(1 <= op.num_tokens <= size and len(content) == op.num_tokens, "the sequence has no such tokens")
    expect(not block.token_ids, f"block {op.block_id} has content already")
    step.budget.spend(UNITS_PER_SLOT * op.num_tokens)
    block.token_ids = content


@_on(Arrive)
def _arrive(state: State, op: Arrive, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    state.receiving.remove(op.seq_id)
    _queue(state, op.queue_position, op.seq_id)
    sequence.status = "waiting"
    _expect_computed(sequence, sequence.num_computed_tokens + op.num_tokens)
    sequence.num_computed_tokens += op.num_tokens


@_on(TransferFailed)
def _transfer_failed(state: State, op: TransferFailed, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    (state.receiving if op.seq_id in state.receiving else state.waiting).remove(op.seq_id)
    _queue(state, op.queue_position, op.seq_id)
    sequence.status, sequence.num_computed_tokens, sequence.num_cached_tokens = "waiting", 0, 0


@_on(Hold)
def _hold(state: State, op: Hold, step: RecordContext) -> None:
    expect(state.sequences[op.seq_id].status == "finished", f"sequence {op.seq_id} is not finished")
    state.holding.append(op.seq_id)


@_on(Send)
def _send(state: State, op: Send, step: RecordContext) -> None:
    state.holding.remove(op.seq_id)


@_on(Expire)
def _expire(state: State, op: Expire, step: RecordContext) -> None:
    state.holding.remove(op.seq_id)


@_on(Lost)
def _lost(state: State, op: Lost, step: RecordContext) -> None:
    lose_instance(state, step.instance, step.budget)


@_on(Drop)
def _drop(state: State, op: Drop, step: RecordContext) -> None:
    free_cpu_block(state, state.sequences[op.seq_id], op.cpu_block_id)


@_on(Discard)
def _discard(state: State, op: Discard, step: RecordContext) -> None:
    state.sequences[op.seq_id].num_computed_tokens = 0


@_on(Finish)
def _finish(state: State, op: Finish, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    lists = (state.running, state.waiting, state.receiving)
    next((ids for ids in lists if op.seq_id in ids), state.waiting).remove(op.seq_id)
    state.finished.append(op.seq_id)
    sequence.status, sequence.finish_reason = "finished", op.reason


@_on(Rank)
def _rank(state: State, op: Rank, step: RecordContext) -> None:
    num_sequences, num_scores = len(op.seq_ids), len(op.scores)
    expect(num_sequences == num_scores, f"{num_sequences} sequences have {num_scores} scores")
    for rank, (seq_id, score) in enumerate(zip(op.seq_ids, op.scores, strict=True)):
        if seq_id in state.sequences or not state.num_forgotten:  # a finished sequence may have been dropped
            state.sequences[seq_id].rank, state.sequences[seq_id].score = rank, score


@_on(Stored)
def _stored(state: State, op: Stored, step: RecordContext) -> None:
    observing.put(state, step.instance, op, step.index, step.budget)


@_on(Removed)
def _removed(state: State, op: Removed, step: RecordContext) -> None:
    observing.remove(state, step.instance, op)


@_on(KnownSince)
def _known_since(state: State, op: KnownSince, step: RecordContext) -> None:
    observing.clear(state, step.instance, step.budget)


@_on(Defer)
def _defer(state: State, op: Defer, step: RecordContext) -> None:
    if op.reason == "fragmented":
        check_fragmented(state, op.needed, op.available, op.num_free, step.budget)


def _no_effect(state: State, op: LookupExternal | Store, step: RecordContext) -> None:
    """No-op, because the operation concerns content outside the pool."""


OPERATIONS |= dict.fromkeys((LookupExternal, Store), _no_effect)


@_on(Write)
def _write(state: State, op: Write, step: RecordContext) -> None:
    """Fill slots block by block. They must directly follow the filled ones."""
    sequence, size, start, end = state.sequences[op.seq_id], state.block_size, op.start, op.start + op.num_tokens
    if sequence.num_computed_tokens != start:
        raise ValueError(f"{sequence.num_computed_tokens} tokens are computed, but the write starts at {start}")
    written = sequence.token_ids[start:end] if end <= len(sequence.token_ids) else sequence.token_ids[start:]
    if end > len(sequence.token_ids):
        written += step.drafts.get(op.seq_id, [])
    if not 0 <= end - start <= len(written):
        raise ValueError(f"sequence {op.seq_id} has {len(sequence.token_ids)} tokens, but not all of [{start}, {end})")
    tables = own_tables(state, sequence)
    step.budget.spend(UNITS_PER_SLOT * op.num_tokens * len(tables))
    for group, table in zip(state.own_groups[sequence.instance], tables, strict=True):
        position, has_gaps = start, is_of_states(state, group)
        while position < end:
            logical, slot = divmod(position, size)
            if has_gaps and table[logical] == RELEASED:
                position += size - slot
                continue
            filled = block_of(state, table[logical]).token_ids  # raises for RELEASED
            if slot > len(filled):
                raise ValueError(f"slot {slot} of block {table[logical]} would leave a hole")
            block_end = min(end, position - slot + size)
            filled[slot : slot + block_end - position] = written[position - start : block_end - start]
            position = block_end
    sequence.num_computed_tokens = end


@_on(Sample)
def _sample(state: State, op: Sample, step: RecordContext) -> None:
    sequence = state.sequences[op.seq_id]
    if sequence.chosen and sequence.chosen[0][0] == len(sequence.token_ids):
        _, token_id = sequence.chosen.pop(0)
        expect(op.token_id == token_id, f"token {token_id} was chosen for this position")
    output = step.outputs.take(op.seq_id, op.token_id)
    sequence.token_ids.append(op.token_id)
    sequence.token_bytes.append(output.token_bytes)
    sequence.cumulative_logprob += output.logprob


@_on(Draft)
def _draft(state: State, op: Draft, step: RecordContext) -> None:
    running = state.sequences[op.seq_id].status == "running"
    expect(running and op.seq_id not in step.drafts, f"sequence {op.seq_id} is not running or has drafts already")
    expect(len(op.token_ids) == len(op.token_bytes), "token_ids and token_bytes have different lengths")
    step.drafts[op.seq_id] = op.token_ids


@_on(Verify)
def _verify(state: State, op: Verify, step: RecordContext) -> None:
    drafts = step.drafts.get(op.seq_id, [])
    expect(op.num_drafted == len(drafts), f"sequence {op.seq_id} has {len(drafts)} drafts")
    expect(0 <= op.num_accepted <= op.num_drafted, f"{op.num_accepted} of {op.num_drafted} drafts cannot be accepted")
    token_ids = state.sequences[op.seq_id].token_ids
    first = state.sequences[op.seq_id].num_computed_tokens - op.num_drafted
    accepted = token_ids[first : first + op.num_accepted] if first >= 0 else None
    expect(accepted == drafts[: op.num_accepted], f"sequence {op.seq_id} did not continue with its drafts")


@_on(TakeBack)
def _take_back(state: State, op: TakeBack, step: RecordContext) -> None:
    sequence, size, start = state.sequences[op.seq_id], state.block_size, op.start
    num_rejected = sequence.num_computed_tokens - start
    is_valid = op.num_tokens == num_rejected > 0 < start <= len(sequence.token_ids)
    expect(is_valid, f"{op.num_tokens} tokens cannot be taken back")
    for table in own_tables(state, sequence):
        for logical in range(start // size, len(table)):
            block, num_left = block_of(state, table[logical]), max(start - logical * size, 0)
            if len(block.token_ids) > num_left:
                is_private = block.ref_count == 1 and block.block_hash is None
                expect(is_private, f"block {block.block_id} is shared or cached")
                del block.token_ids[num_left:]
    sequence.num_computed_tokens = start


def _queue(state: State, position: int, seq_id: int) -> None:
    """Insert a sequence into the waiting queue, at `position` among the sequences of its instance."""
    own = queue_positions(state, state.waiting, state.sequences[seq_id].instance)
    expect(0 <= position <= len(own), f"the waiting queue has no position {position}")
    state.waiting.insert(own[position] if position < len(own) else len(state.waiting), seq_id)


def _new(state: State, seq_id: int) -> None:
    expect(seq_id not in state.sequences, f"sequence {seq_id} exists already")


def _expect_computed(sequence: Sequence, num_computed: int) -> None:
    num_tokens = len(sequence.token_ids)
    expect(0 <= num_computed <= num_tokens, f"{num_computed} of {num_tokens} tokens cannot be computed")


def _content(state: State, op: SwapOut | SwapIn, step: RecordContext) -> list[int]:
    """Return the content of the block that is swapped out or in, and charge the budget for it."""
    entry_of(state, op.seq_id, op.block_id, op.logical)
    content = block_of(state, op.block_id).token_ids
    step.budget.spend(UNITS_PER_SLOT * len(content))
    return content


if missing := {kind.__name__ for kind in get_args(Op) if kind not in OPERATIONS}:
    raise TypeError(f"operations without an entry in OPERATIONS: {', '.join(sorted(missing))}")
