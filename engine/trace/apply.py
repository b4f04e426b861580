"""Folds a record into a state: its operations in order (`operations.py`), then its batch.

`static/js/core/state.js` mirrors this file; shared golden traces hold both to the same state.
"""

from __future__ import annotations

from typing import get_args

from engine.trace.instances import expect_own
from engine.trace.limits import Budget, Unbounded
from engine.trace.operation_effects import OPERATIONS, Folded
from engine.trace.operations import Copy, Fork, Op, Submit
from engine.trace.record_outputs import RecordOutputs
from engine.trace.records import BatchEntry, StepRecord
from engine.trace.state import State, TraceStateError
from engine.trace.tables import expect

UNBOUNDED = Unbounded()
# operations on an existing sequence
OF_SEQUENCE = frozenset(kind for kind in get_args(Op) if "seq_id" in kind.__struct_fields__) - {Submit, Fork}


def apply(state: State, record: StepRecord, budget: Budget = UNBOUNDED) -> State:
    """Fold `record` into `state`, in place, and return it. `budget`: copy budget of a log read from a file.

    Raises:
        TraceStateError: an operation contradicts the state (a gap in the log, or a damaged producer).
    """
    if record.index != state.index + 1:
        raise TraceStateError(f"record {record.index} cannot follow record {state.index}")
    index, sequences = record.index, state.sequences
    step = Folded(index, record.instance, RecordOutputs(record.outputs), budget)
    if not 0 <= record.instance < len(state.own_groups):
        raise TraceStateError(f"record {index} is of instance {record.instance}, and there is none")
    if state.finished_kept is not None and len(state.finished) > state.finished_kept:
        _forget(state, len(state.finished) - state.finished_kept)
    is_one, position = len(state.own_groups) == 1, -1
    owed: Copy | None = None
    try:
        for op in record.ops:
            position, kind = position + 1, type(op)
            if not is_one:
                expect_own(state, record.instance, op)
            if owed is not None or kind is Copy:
                expect(op == owed, "a copy must directly follow the allocation that replaces its source")
            if kind in OF_SEQUENCE:
                seq_id = op.seq_id  # type: ignore[union-attr]
                if seq_id not in sequences and seq_id is not None:
                    raise KeyError(seq_id)
            owed = OPERATIONS[kind](state, op, step)
        expect(owed is None, "it replaces another block, and no copy follows")
    except (LookupError, ValueError, ArithmeticError) as error:
        name = op.__struct_config__.tag
        why = _missing(error.args[0]) if isinstance(error, KeyError) else str(error)
        raise TraceStateError(
            f"record {record.index}, operation {position} ({name}) contradicts the state: {why}", position
        ) from error
    for entry in record.batch:
        _check_entry(state, index, entry, len(step.drafts.get(entry.seq_id, ())))
    state.index, state.step = index, record.step
    return state


def _forget(state: State, count: int) -> None:
    """Drop the `count` oldest finished sequences that hold no blocks."""
    holding = set(state.holding)
    gone = [seq_id for seq_id in state.finished if seq_id not in holding][:count]
    forgotten = set(gone)
    state.finished = [seq_id for seq_id in state.finished if seq_id not in forgotten]
    for seq_id in gone:
        del state.sequences[seq_id]
    state.num_forgotten += len(gone)


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
