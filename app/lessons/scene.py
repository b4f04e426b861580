"""Subject of a question or a figure: a run's log, with its visible part and the part that decides the answer."""

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
    """The run does not decide the question; one sentence."""


class Operation(NamedTuple, Generic[OpT]):
    """Operation with its record."""

    record: StepRecord
    place: int  # index among the record's operations
    op: OpT


class Scene:
    """Run at a moment of a lesson."""

    def __init__(self, log: TraceReader, now: int, before: TraceReader | None = None) -> None:
        """`log` ends where the question is decided; the learner sees its first `now` records.

        `before`: the complete log of the lesson's previous run.
        """
        self.log = log
        self.header = log.header
        self.now = now
        self.earlier = before

    @property
    def state(self) -> State:
        """State that the learner sees."""
        return self.log.state_at(self.now - 1)

    @property
    def after(self) -> State:
        """State when the question is decided."""
        return self.log.state_at(len(self.log) - 1)

    @property
    def keeps(self) -> bool:
        """Whether keys and values are cached between steps."""
        return self.header.engine["strategy"] != "none"

    @property
    def reserves(self) -> bool:
        """Whether a sequence reserves its maximum from the start."""
        return self.header.engine["strategy"] in ("contiguous", "first_fit", "static")

    @property
    def block_size(self) -> int:
        return self.state.block_size

    def sequence(self, seq: int) -> Sequence:
        """Return sequence `seq` as the learner sees it. Raises Undecided: no such sequence."""
        found = self.state.sequences.get(seq)
        if found is None:
            raise Undecided(f"there is no sequence {seq} in the run yet")
        return found

    def coming(self) -> Iterator[StepRecord]:
        """Yield the records that the learner has not seen."""
        for index in range(self.now, len(self.log)):
            yield self.log.record(index)

    def seen(self) -> Iterator[StepRecord]:
        """Yield the records that the learner has seen."""
        for index in range(self.now):
            yield self.log.record(index)

    def all(self) -> Iterator[StepRecord]:
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
        """Return the engine's next step. Raises Undecided: the next action has no step."""
        found = next((record for record in self.coming() if record.kind == "step"), None)
        if found is None:
            raise Undecided("it is about the next step, but no action with a step follows the question")
        return found

    def entry(self, record: StepRecord, seq: int) -> BatchEntry:
        """Return the sequence's batch entry. Raises Undecided: it has none."""
        found = next((entry for entry in record.batch if entry.seq_id == seq), None)
        if found is None:
            raise Undecided(f"step {record.step} computes nothing of sequence {seq}")
        return found

    def chooses(self, record: StepRecord, seq: int) -> bool:
        """Return whether a step samples a token for the sequence: False for a chunk before the last."""
        return any(output.seq_id == seq for output in record.outputs)

    def capture(self, index: int) -> Capture:
        """Return the capture of a record. Raises Undecided: it has none."""
        found = self.log.capture(index)
        if found is None:
            raise Undecided(f"record {index} has no arrays")
        return found


def find_op(records: Iterable[StepRecord], kind: type[OpT], **fields: object) -> Operation[OpT] | None:
    """Return the first operation of a type with these fields."""
    for record in records:
        for place, op in enumerate(record.ops):
            if isinstance(op, kind) and all(getattr(op, name) == value for name, value in fields.items()):
                return Operation(record, place, op)
    return None


def need_op(records: Iterable[StepRecord], kind: type[OpT], otherwise: str, **fields: object) -> Operation[OpT]:
    """Return what `find_op` returns; raise Undecided(otherwise) if there is none."""
    found = find_op(records, kind, **fields)
    if found is None:
        raise Undecided(otherwise)
    return found


def shown(log: TraceReader, count: int) -> ShownLog:
    """Return the first `count` records of a log."""
    return ShownLog(log, count)
