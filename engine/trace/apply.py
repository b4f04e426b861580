"""Folding a record into a state: what each operation means.

`static/js/core/state_operations.js` mirrors this file; shared golden traces hold both to the same state.
"""

from __future__ import annotations

from bisect import bisect_left

from engine.trace.events import (
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
    Drop,
    Evict,
    Expire,
    Finish,
    Fork,
    Free,
    Hold,
    KnownSince,
    Load,
    Lookup,
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
    Stored,
    Submit,
    SwapIn,
    SwapOut,
    TransferFailed,
    Write,
)
from engine.trace.holes import Hole
from engine.trace.instances import expect_own, lose_instance, own_tables, places_of
from engine.trace.limits import UNITS_PER_SLOT, Budget, Unbounded
from engine.trace.observing import forget, put, take_out
from engine.trace.records import BatchEntry, Output, StepRecord
from engine.trace.state import (
    RECENT_LOOKUPS,
    Sequence,
    State,
    TraceStateError,
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
    let_go,
    requeue,
    reserve_piece,
    set_table,
    table_of,
)

UNBOUNDED = Unbounded()


def apply(state: State, record: StepRecord, budget: Budget = UNBOUNDED) -> State:
    """Fold `record` into `state`, in place, and return it. `budget`: what a log read from a file may still copy.

    Raises:
        TraceStateError: an operation contradicts the state (a gap in the log, or a damaged producer).
    """
    if record.index != state.index + 1:
        raise TraceStateError(f"record {record.index} cannot follow record {state.index}")
    index, outputs = record.index, {(o.seq_id, o.token_id): o for o in record.outputs}
    if not 0 <= record.instance < len(state.own_groups):
        raise TraceStateError(f"record {index} is of instance {record.instance}, and there is none")
    if state.finished_kept is not None and len(state.finished) > state.finished_kept:
        _forget(state, len(state.finished) - state.finished_kept)
    is_one, position = len(state.own_groups) == 1, -1
    owed: Copy | None = None
    try:
        for op in record.ops:
            position += 1
            if not is_one:
                expect_own(state, record.instance, op)
            if owed is not None or type(op) is Copy:
                expect(op == owed, "a copy follows the allocation that takes its source's place, and nothing else does")
            if type(op) is Write:  # what a log has most of
                _apply_write(state, op, budget)
            elif type(op) is Sample:
                _apply_sample(state.sequences[op.seq_id], op, outputs)
            else:
                owed = _apply_op(state, record, op, budget)
        expect(owed is None, "it takes another block's place, and no copy follows")
    except (LookupError, ValueError, ArithmeticError) as error:
        name = op.__struct_config__.tag
        why = _missing(error.args[0]) if isinstance(error, KeyError) else str(error)
        raise TraceStateError(
            f"record {record.index}, operation {position} ({name}) contradicts the state: {why}", position
        ) from error
    for entry in record.batch:
        _check_entry(state, index, entry)
    state.index, state.step = index, record.step
    return state


def _forget(state: State, count: int) -> None:
    """The oldest finished sequences that hold nothing are no longer there."""
    holding = set(state.holding)
    gone = [seq_id for seq_id in state.finished if seq_id not in holding][:count]
    forgotten = set(gone)
    state.finished = [seq_id for seq_id in state.finished if seq_id not in forgotten]
    for seq_id in gone:
        del state.sequences[seq_id]
    state.num_forgotten += len(gone)


def _check_entry(state: State, index: int, entry: BatchEntry) -> None:
    sequence, end = state.sequences.get(entry.seq_id), entry.start + len(entry.token_ids)
    if sequence is None:
        raise TraceStateError(f"record {index} contradicts the state: its batch has a sequence {entry.seq_id}")
    if entry.start < 0 or end > len(sequence.token_ids) or entry.context_len != end:
        raise TraceStateError(
            f"record {index} contradicts the state: its batch has positions [{entry.start}, {end}) of sequence "
            f"{entry.seq_id}, which has {len(sequence.token_ids)} tokens, and a context of {entry.context_len}"
        )


def _apply_op(state: State, record: StepRecord, op: Op, budget: Budget) -> Copy | None:
    """Fold one operation. Return the copy that has to follow an allocation in the place of a shared block."""
    seq_id, index = getattr(op, "seq_id", None), record.index
    if seq_id is not None and seq_id not in state.sequences and not isinstance(op, Submit | Fork):
        raise KeyError(seq_id)
    match op:  # the five of which a log has most come first, and put their words together only where they fail
        case Free():
            table = table_of(state, op.seq_id, op.block_id)
            if not table or table[-1] != op.block_id:
                raise ValueError(f"block {op.block_id} is not the table's last")
            table.pop()
            while table and table[-1] == RELEASED:
                table.pop()
            let_go(state, op.block_id, op.to)
        case Allocate():
            block, group = block_of(state, op.block_id), group_of(state, op.block_id)
            queue = state.free_queues[group]
            if not queue or queue[0] != op.block_id:
                raise ValueError(f"block {op.block_id} is not the head of the free queue")
            state.free_order.pop_head(queue)
            if block.block_hash is not None:
                raise ValueError(f"block {op.block_id} was allocated with its hash")
            block.ref_count, block.token_ids, block.logical = 1, [], op.logical
            block.allocated_by, block.allocated_in = op.seq_id, index
            block.num_hits, block.last_hit_in = 0, None
            sequence = state.sequences[op.seq_id]
            has_gaps = bool(sequence.cpu_block_table) or op.reason in ("load", "receive")
            shared = set_table(sequence, group, op.logical, op.block_id, has_gaps, budget)
            if shared is not None:
                return Copy(seq_id=op.seq_id, logical=op.logical, src=shared, dst=op.block_id)
        case Cache():
            block_of(state, op.block_id).block_hash = op.block_hash
        case Evict():
            block = block_of(state, op.block_id)
            if block.block_hash != op.block_hash:
                raise ValueError(f"block {op.block_id} does not carry that hash")
            block.block_hash, block.token_ids = None, []
        case Share():
            block, group = block_of(state, op.block_id), group_of(state, op.block_id)
            if op.revived != (block.ref_count == 0):
                raise ValueError(f"block {op.block_id} has {block.ref_count} owners")
            if op.revived:
                state.free_order.remove(state.free_queues[group], op.block_id)
            block.ref_count += 1
            block.num_hits += 1
            block.last_hit_in = index
            before = set_table(state.sequences[op.seq_id], group, op.logical, op.block_id, True, budget)
            expect(before is None, f"block {before} is at logical block {op.logical} already")
        case Submit():
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
                submitted_in=index,
                transfer=op.transfer,
                instance=record.instance,
            )
            _queue(state, op.queue_position, op.seq_id)
        case Admit():
            sequence = state.sequences[op.seq_id]
            state.waiting.remove(op.seq_id)
            state.running.append(op.seq_id)
            sequence.status = "running"
            computed = op.num_cached_tokens + op.num_swapped_tokens + op.num_external_tokens
            _possible(sequence, op.num_cached_tokens)
            _possible(sequence, computed)
            sequence.num_cached_tokens, sequence.num_computed_tokens = op.num_cached_tokens, computed
        case Lookup():
            preempted = state.sequences[op.seq_id].status == "preempted"
            if op.verdict in ("hit", "miss", "too_short") and not preempted:
                state.recent_lookups.append([op.num_tokens, op.num_hit_tokens])
                del state.recent_lookups[:-RECENT_LOOKUPS]
        case Reserve():
            reserve_piece(state, op.seq_id, Hole(op.block_id, op.num_blocks), op.hole_blocks, budget)
        case Requeue():
            requeue(state, op.block_ids, budget)
        case Fork():
            parent = state.sequences[op.parent_seq_id]
            expect(
                parent.status == "running", f"sequence {op.parent_seq_id} is {parent.status}, and a running one forks"
            )
            _new(state, op.seq_id)
            budget.spend(2 * len(parent.token_ids) + sum(map(len, parent.block_tables)))
            child = copy_sequence(parent)
            child.seq_id, child.request_id, child.submitted_in = op.seq_id, op.request_id, index
            child.parent_seq_id = op.parent_seq_id
            child.chosen = []
            state.sequences[op.seq_id] = child
            state.running.append(op.seq_id)
            for block_id in held_blocks(child):
                block_of(state, block_id).ref_count += 1
        case Copy():
            src, dst = block_of(state, op.src), block_of(state, op.dst)
            entry_of(state, op.seq_id, op.dst, op.logical)
            expect(src.ref_count > 1, f"block {op.src} has {src.ref_count} owners, and a copy is for one of several")
            budget.spend(UNITS_PER_SLOT * len(src.token_ids))
            src.ref_count -= 1
            dst.token_ids = list(src.token_ids)
        case Choose():
            sequence = state.sequences[op.seq_id]
            expect(op.position >= len(sequence.token_ids), f"position {op.position} has its token already")
            at = bisect_left(sequence.chosen, op.position, key=lambda pair: pair[0])
            replaced = sequence.chosen[at : at + 1]
            later = not replaced or replaced[0][0] != op.position
            sequence.chosen[at : at + (not later)] = [[op.position, op.token_id]]
        case Adjust():
            for seq_id in op.seq_ids:
                state.sequences[seq_id].max_tokens = op.max_tokens
        case Release():
            table = entry_of(state, op.seq_id, op.block_id, op.logical)
            expect(op.logical < len(table) - 1, f"logical block {op.logical} is not before the table's last")
            table[op.logical] = RELEASED
            let_go(state, op.block_id, op.to)
        case Preempt():
            sequence = state.sequences[op.seq_id]
            state.running.remove(op.seq_id)
            _queue(state, op.queue_position, op.seq_id)
            sequence.status = "preempted"
            sequence.num_preemptions += 1
            if op.mode == "recompute":
                sequence.num_computed_tokens = 0
        case SwapOut():
            sequence, cpu_block = state.sequences[op.seq_id], cpu_block_of(state, op.cpu_block_id)
            content = _content(state, op, budget)
            expect(cpu_block.seq_id is None, f"CPU block {op.cpu_block_id} is in use")
            cpu_block.seq_id, cpu_block.logical = op.seq_id, op.logical
            cpu_block.token_ids = list(content)
            sequence.cpu_block_table.append(op.cpu_block_id)
        case SwapIn():
            sequence = state.sequences[op.seq_id]
            _content(state, op, budget)
            budget.spend(UNITS_PER_SLOT * len(cpu_block_of(state, op.cpu_block_id).token_ids))
            block_of(state, op.block_id).token_ids = cpu_block_of(state, op.cpu_block_id).token_ids
            free_cpu_block(state, sequence, op.cpu_block_id)
        case Load():
            sequence, block, size = state.sequences[op.seq_id], block_of(state, op.block_id), state.block_size
            entry_of(state, op.seq_id, op.block_id, op.logical)
            content = sequence.token_ids[op.logical * size : (op.logical + 1) * size]
            expect(len(content) == size, f"sequence {op.seq_id} has no full block {op.logical}")
            expect(not block.token_ids, f"block {op.block_id} has content already")
            budget.spend(UNITS_PER_SLOT * size)
            block.token_ids = content
        case Await():
            sequence = state.sequences[op.seq_id]
            state.waiting.remove(op.seq_id)
            state.receiving.append(op.seq_id)
            sequence.status = "receiving"
            _possible(sequence, op.num_cached_tokens)
            sequence.num_cached_tokens = sequence.num_computed_tokens = op.num_cached_tokens
        case Receive():
            sequence, block, size = state.sequences[op.seq_id], block_of(state, op.block_id), state.block_size
            entry_of(state, op.seq_id, op.block_id, op.logical)
            content = sequence.token_ids[op.logical * size : op.logical * size + op.num_tokens]
            expect(1 <= op.num_tokens <= size and len(content) == op.num_tokens, "the sequence has no such tokens")
            expect(not block.token_ids, f"block {op.block_id} has content already")
            budget.spend(UNITS_PER_SLOT * op.num_tokens)
            block.token_ids = content
        case Arrive():
            sequence = state.sequences[op.seq_id]
            state.receiving.remove(op.seq_id)
            _queue(state, op.queue_position, op.seq_id)
            sequence.status = "waiting"
            _possible(sequence, sequence.num_computed_tokens + op.num_tokens)
            sequence.num_computed_tokens += op.num_tokens
        case TransferFailed():
            sequence = state.sequences[op.seq_id]
            (state.receiving if op.seq_id in state.receiving else state.waiting).remove(op.seq_id)
            _queue(state, op.queue_position, op.seq_id)
            sequence.status, sequence.num_computed_tokens, sequence.num_cached_tokens = "waiting", 0, 0
        case Hold():
            expect(state.sequences[op.seq_id].status == "finished", f"sequence {op.seq_id} is not finished")
            state.holding.append(op.seq_id)
        case Send() | Expire():
            state.holding.remove(op.seq_id)
        case Lost():
            lose_instance(state, record.instance, budget)
        case Drop():
            free_cpu_block(state, state.sequences[op.seq_id], op.cpu_block_id)
        case Discard():
            state.sequences[op.seq_id].num_computed_tokens = 0
        case Finish():
            sequence = state.sequences[op.seq_id]
            lists = (state.running, state.waiting, state.receiving)
            next((ids for ids in lists if op.seq_id in ids), state.waiting).remove(op.seq_id)
            state.finished.append(op.seq_id)
            sequence.status, sequence.finish_reason = "finished", op.reason
        case Rank():
            num_sequences, num_scores = len(op.seq_ids), len(op.scores)
            expect(num_sequences == num_scores, f"{num_sequences} sequences have {num_scores} scores")
            for rank, (seq_id, score) in enumerate(zip(op.seq_ids, op.scores, strict=True)):
                if seq_id in state.sequences or not state.num_forgotten:  # a request's first may be long finished
                    state.sequences[seq_id].rank, state.sequences[seq_id].score = rank, score
        case Stored():
            put(state, record.instance, op, index, budget)
        case Removed():
            take_out(state, record.instance, op)
        case KnownSince():
            forget(state, record.instance, budget)
        case Defer():  # it explains, and changes nothing
            if op.reason == "fragmented":
                check_fragmented(state, op.needed, op.available, op.num_free, budget)
        case _:
            pass
    return None


def _apply_write(state: State, op: Write, budget: Budget) -> None:
    """Block by block: of each the slots from the first position on; they must follow those that are filled."""
    sequence, size, start, end = state.sequences[op.seq_id], state.block_size, op.start, op.start + op.num_tokens
    if sequence.num_computed_tokens != start:
        raise ValueError("another number of tokens is computed")
    if not start <= end <= len(sequence.token_ids):
        raise ValueError(f"sequence {op.seq_id} has {len(sequence.token_ids)} tokens, and none at [{start}, {end})")
    tables = own_tables(state, sequence)
    budget.spend(UNITS_PER_SLOT * op.num_tokens * len(tables))
    token_ids = sequence.token_ids
    for table in tables:
        position = start
        while position < end:
            logical, slot = divmod(position, size)
            filled = block_of(state, table[logical]).token_ids  # RELEASED is no block
            if slot > len(filled):
                raise ValueError(f"slot {slot} of block {table[logical]} would leave a hole")
            upto = min(end, position - slot + size)
            filled[slot : slot + upto - position] = token_ids[position:upto]
            position = upto
    sequence.num_computed_tokens = end


def _apply_sample(sequence: Sequence, op: Sample, outputs: dict[tuple[int, int], Output]) -> None:
    if sequence.chosen and sequence.chosen[0][0] == len(sequence.token_ids):
        _, token_id = sequence.chosen.pop(0)
        expect(op.token_id == token_id, f"token {token_id} was chosen for this position")
    output = outputs[op.seq_id, op.token_id]
    sequence.token_ids.append(op.token_id)
    sequence.token_bytes.append(output.token_bytes)
    sequence.cumulative_logprob += output.logprob


def _missing(key: int | tuple[int, int]) -> str:
    """What was looked up and is not there: a sequence, or the output that belongs to a sampled token."""
    return f"there is no sequence {key}" if isinstance(key, int) else f"sequence {key[0]} has no output {key[1]}"


def _queue(state: State, position: int, seq_id: int) -> None:
    """Into the waiting queue, at that position among the sequences of its instance."""
    own = places_of(state, state.waiting, state.sequences[seq_id].instance)
    expect(0 <= position <= len(own), f"the waiting queue has no position {position}")
    state.waiting.insert(own[position] if position < len(own) else len(state.waiting), seq_id)


def _new(state: State, seq_id: int) -> None:
    expect(seq_id not in state.sequences, f"sequence {seq_id} exists already")


def _possible(sequence: Sequence, num_computed: int) -> None:
    num_tokens = len(sequence.token_ids)
    expect(0 <= num_computed <= num_tokens, f"{num_computed} of {num_tokens} tokens cannot be computed")


def _content(state: State, op: SwapOut | SwapIn, budget: Budget) -> list[int]:
    """What the block holds that goes to the CPU store, or is overwritten from there."""
    entry_of(state, op.seq_id, op.block_id, op.logical)
    content = block_of(state, op.block_id).token_ids
    budget.spend(UNITS_PER_SLOT * len(content))
    return content
