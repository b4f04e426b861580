"""Input of questions and figures: a run's log with a visible part, and hidden records that decide the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from engine.trace.log import TraceReader
from engine.trace.operations import Op
from engine.trace.records import BatchEntry, Capture, StepRecord
from engine.trace.shown_log import ShownLog
from engine.trace.state import Sequence, State

OpT = TypeVar("OpT", bound=Op)


class Undecided(ValueError):
    """The run does not decide the question or figure. The message is one sentence."""


class Operation(NamedTuple, Generic[OpT]):
    """Operation, its record and its index in it."""

    record: StepRecord
    op_index: int
    op: OpT


class Scene:
    """Run at a moment of a lesson."""

    def __init__(self, log: TraceReader, now: int, earlier: TraceReader | None = None) -> None:
        """`log` ends with the record that decides the question. Its first `now` records are visible.

        `earlier`: complete log of the lesson's previous run.
        """
        self.log = log
        self.header = log.header
        self.now = now
        self.earlier = earlier

    @property
    def state(self) -> State:
        """State after the visible records."""
        return self.log.state_at(self.now - 1)

    @property
    def final_state(self) -> State:
        """State after all records."""
        return self.log.state_at(len(self.log) - 1)

    @property
    def has_cache(self) -> bool:
        """Whether the run caches keys and values between steps."""
        return self.header.engine["strategy"] != "none"

    @property
    def reserves(self) -> bool:
        """Whether a sequence reserves memory for its maximum length at the start."""
        return self.header.engine["strategy"] in ("contiguous", "first_fit", "static")

    @property
    def block_size(self) -> int:
        return self.state.block_size

    def sequence(self, seq: int) -> Sequence:
        """Return sequence `seq` in the visible state. Raises Undecided if it does not exist."""
        found = self.state.sequences.get(seq)
        if found is None:
            raise Undecided(f"there is no sequence {seq} in the run yet")
        return found

    def unseen_records(self) -> Iterator[StepRecord]:
        """Yield the records that the learner has not seen."""
        for index in range(self.now, len(self.log)):
            yield self.log.record(index)

    def seen_records(self) -> Iterator[StepRecord]:
        """Yield the records that the learner has seen."""
        for index in range(self.now):
            yield self.log.record(index)

    def all_records(self) -> Iterator[StepRecord]:
        for index in range(len(self.log)):
            yield self.log.record(index)

    def covering(self, position: int, seq: int, records: Iterable[StepRecord]) -> list[int]:
        """Return the indices of `records` whose batch computes a position of a sequence."""
        return [
            record.index
            for record in records
            for entry in record.batch
            if entry.seq_id == seq and entry.start <= position < entry.start + len(entry.token_ids)
        ]

    def next_step(self) -> StepRecord:
        """Return the engine's next step. Raises Undecided if the next action runs no step."""
        found = next((record for record in self.unseen_records() if record.kind == "step"), None)
        if found is None:
            raise Undecided("the question is about the next step, but the following action runs no step")
        return found

    def entry(self, record: StepRecord, seq: int) -> BatchEntry:
        """Return the batch entry of a sequence. Raises Undecided if it has none."""
        found = next((entry for entry in record.batch if entry.seq_id == seq), None)
        if found is None:
            raise Undecided(f"step {record.step} computes nothing of sequence {seq}")
        return found

    def samples_token(self, record: StepRecord, seq: int) -> bool:
        """Return whether a step samples a token for the sequence. False for all chunks of a prompt but the last."""
        return any(output.seq_id == seq for output in record.outputs)

    def capture(self, index: int) -> Capture:
        """Return the capture of a record. Raises Undecided if it has none."""
        found = self.log.capture(index)
        if found is None:
            raise Undecided(f"record {index} has no arrays")
        return found


def find_op(records: Iterable[StepRecord], kind: type[OpT], **fields: object) -> Operation[OpT] | None:
    """Return the first operation of a type with these field values, or None."""
    for record in records:
        for index, op in enumerate(record.ops):
            if isinstance(op, kind) and all(getattr(op, name) == value for name, value in fields.items()):
                return Operation(record, index, op)
    return None


def need_op(records: Iterable[StepRecord], kind: type[OpT], message: str, **fields: object) -> Operation[OpT]:
    """Return the first operation of a type with these field values. Raises Undecided(message) if there is none."""
    found = find_op(records, kind, **fields)
    if found is None:
        raise Undecided(message)
    return found


def visible_log(log: TraceReader, count: int) -> ShownLog:
    """Return a view of the first `count` records of a log."""
    return ShownLog(log, count)
