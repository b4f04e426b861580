"""Apply a record to a state: its operations in order (`operation_effects.py`), then a check of its batch.

`static/js/core/state.js` mirrors this file. Tests compare both on shared golden traces.
"""

from __future__ import annotations

from typing import get_args

from engine.trace.instances import expect_own
from engine.trace.limits import Budget, Unbounded
from engine.trace.operation_effects import OPERATIONS, RecordContext
from engine.trace.operations import Copy, Fork, Op, Submit
from engine.trace.record_outputs import RecordOutputs
from engine.trace.records import BatchEntry, StepRecord
from engine.trace.state import State, TraceStateError
from engine.trace.tables import expect

UNBOUNDED = Unbounded()
NEEDS_SEQUENCE = frozenset(kind for kind in get_args(Op) if "seq_id" in kind.__struct_fields__) - {Submit, Fork}


def apply(state: State, record: StepRecord, budget: Budget = UNBOUNDED) -> State:
    """Apply `record` to `state`, in place, and return the state. `budget`: copy budget of a log read from a file.

    Raises:
        TraceStateError: an operation contradicts the state (a gap in the log, or a faulty producer).
    """
    if record.index != state.index + 1:
        raise TraceStateError(f"record {record.index} cannot follow record {state.index}")
    index, sequences = record.index, state.sequences
    step = RecordContext(index, record.instance, RecordOutputs(record.outputs), budget)
    if not 0 <= record.instance < len(state.own_groups):
        raise TraceStateError(f"record {index} names instance {record.instance}, which does not exist")
    if state.finished_kept is not None and len(state.finished) > state.finished_kept:
        _drop_finished(state, len(state.finished) - state.finished_kept)
    has_one_instance, position = len(state.own_groups) == 1, -1
    pending: Copy | None = None  # copy that must be the next operation
    try:
        for op in record.ops:
            position, kind = position + 1, type(op)
            if not has_one_instance:
                expect_own(state, record.instance, op)
            if pending is not None or kind is Copy:
                expect(op == pending, "a copy must directly follow the allocation that replaces its source")
            if kind in NEEDS_SEQUENCE:
                seq_id = op.seq_id  # type: ignore[union-attr]
                if seq_id not in sequences and seq_id is not None:
                    raise KeyError(seq_id)
            pending = OPERATIONS[kind](state, op, step)
        expect(pending is None, "it replaces another block, but no copy follows")
    except (LookupError, ValueError, ArithmeticError) as error:
        name = op.__struct_config__.tag
        reason = _missing(error.args[0]) if isinstance(error, KeyError) else str(error)
        raise TraceStateError(
            f"record {record.index}, operation {position} ({name}) contradicts the state: {reason}", position
        ) from error
    for entry in record.batch:
        _check_entry(state, index, entry, len(step.drafts.get(entry.seq_id, ())))
    state.index, state.step = index, record.step
    return state


def _drop_finished(state: State, count: int) -> None:
    """Drop the `count` oldest finished sequences that hold no blocks."""
    holding = set(state.holding)
    dropped = [seq_id for seq_id in state.finished if seq_id not in holding][:count]
    for seq_id in dropped:
        del state.sequences[seq_id]
    state.finished = [seq_id for seq_id in state.finished if seq_id in state.sequences]
    state.num_forgotten += len(dropped)


def _check_entry(state: State, index: int, entry: BatchEntry, num_drafts: int) -> None:
    sequence, end = state.sequences.get(entry.seq_id), entry.start + len(entry.token_ids)
    if sequence is None:
        raise TraceStateError(f"record {index} contradicts the state: its batch has a sequence {entry.seq_id}")
    if entry.start < 0 or end - num_drafts > len(sequence.token_ids) or entry.context_len != end:
        raise TraceStateError(
            f"record {index} contradicts the state: its batch has positions [{entry.start}, {end}) of sequence "
            f"{entry.seq_id}, which has {len(sequence.token_ids)} tokens, and a context of {entry.context_len}"
        )


def _missing(key: int | tuple[int, int]) -> str:
    """Return the error text for a missing key: a sequence id, or (sequence id, output index) of a sampled token."""
    return f"there is no sequence {key}" if isinstance(key, int) else f"sequence {key[0]} has no output {key[1]}"
