"""Sequences as rows of a table: what became of each, and the spans in which it waited and ran."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from engine.trace.events import Admit, Arrive, Await, Finish, Fork, Lookup, Lost, Op, Preempt, Sample, Submit
from engine.trace.records import StepRecord
from engine.trace.state import State
from engine.trace.survey.columns import Growing

WAITING, RUNNING, PREEMPTED = 0, 1, 2  # what a span is
NONE = -1
NOTED = frozenset((Submit, Fork, Lookup, Admit, Preempt, Await, Arrive, Finish, Lost))  # beside `Sample`
CHANGING = (
    *("num_cached_tokens", "num_output_tokens", "num_preemptions", "looked_in", "lost_in", "admitted_in"),
    *("first_token_in", "finished_in", "finish_reason"),
)
# of a fork: what it has in common with the sequence that it was forked from
OF_THE_PARENT = ("admitted_in", "first_token_in", "num_cached_tokens", "num_output_tokens", "num_preemptions")


class SequenceColumns(Struct, kw_only=True, array_like=True):
    """One entry a sequence, in the order in which they came. Records are indices; NONE: that has not happened."""

    seq_id: list[int] = []
    request_id: list[str] = []
    instance: list[int] = []
    num_prompt_tokens: list[int] = []
    num_cached_tokens: list[int] = []  # at its first admission
    num_output_tokens: list[int] = []
    num_preemptions: list[int] = []
    looked_in: list[int] = []  # its last lookup before it was admitted, if its hits ended at a block that was evicted
    lost_in: list[int] = []  # when that block was
    submitted_in: list[int] = []
    admitted_in: list[int] = []  # first
    first_token_in: list[int] = []
    finished_in: list[int] = []
    finish_reason: list[str] = []  # empty: it has not


class SpanColumns(Struct, kw_only=True, array_like=True):
    """One entry a span, in the order in which they began."""

    row: list[int] = []  # of its sequence
    kind: list[int] = []  # WAITING, RUNNING or PREEMPTED
    first: list[int] = []  # the record in which it began
    end: list[int] = []  # the record in which it ended; NONE: it lasts


class SequenceRows:
    """The columns, filled record by record."""

    def __init__(self) -> None:
        self.columns, self.spans = SequenceColumns(), SpanColumns()
        self.growing = Growing(self.columns, CHANGING)
        self.growing_spans = Growing(self.spans, ("end",))
        self.rows: dict[int, int] = {}  # by seq_id
        self._open: dict[int, int] = {}  # by row: its span that lasts

    def add(self, record: StepRecord, state: State) -> None:
        """The next record; `state` is the one after it."""
        columns, rows = self.columns, self.rows
        for op in record.ops:
            if type(op) is Sample:
                row = rows[op.seq_id]
                columns.num_output_tokens[row] += 1
                if columns.first_token_in[row] == NONE:
                    columns.first_token_in[row] = record.index
                self.growing.change(row)
            elif type(op) in NOTED:
                self._note(op, record, state)

    def _note(self, op: Op, record: StepRecord, state: State) -> None:
        match op:
            case Submit():
                row = self._new(op.seq_id, op.request_id, record, len(op.prompt_token_ids))
                self._begin(row, WAITING, record.index)
            case Fork():
                row = self._new(op.seq_id, op.request_id, record, state.sequences[op.seq_id].num_prompt_tokens)
                parent = self.rows[op.parent_seq_id]
                for name in OF_THE_PARENT:
                    column = getattr(self.columns, name)
                    column[row] = column[parent]
                self._begin(row, RUNNING, record.index)
            case Lookup():
                row = self._changed(op.seq_id)
                if self.columns.admitted_in[row] == NONE:
                    is_lost = op.reason == "evicted" and op.evicted_in is not None
                    self.columns.looked_in[row] = record.index if is_lost else NONE
                    self.columns.lost_in[row] = op.evicted_in if is_lost and op.evicted_in is not None else NONE
            case Admit():
                row = self._changed(op.seq_id)
                if self.columns.admitted_in[row] == NONE:
                    self.columns.admitted_in[row] = record.index
                    self.columns.num_cached_tokens[row] = op.num_cached_tokens
                self._begin(row, RUNNING, record.index)
            case Preempt():
                row = self._changed(op.seq_id)
                self.columns.num_preemptions[row] += 1
                self._begin(row, PREEMPTED, record.index)
            case Await() | Arrive():
                self._begin(self.rows[op.seq_id], WAITING, record.index)
            case Finish():
                self._end(self.rows[op.seq_id], record.index, op.reason)
            case Lost():
                for seq_id in state.finished:
                    if state.sequences[seq_id].instance == record.instance and self.rows[seq_id] in self._open:
                        self._end(self.rows[seq_id], record.index, "abort")
            case _:
                pass

    def _changed(self, seq_id: int) -> int:
        """The row of a sequence, of which something changes."""
        row = self.rows[seq_id]
        self.growing.change(row)
        return row

    def _new(self, seq_id: int, request_id: str, record: StepRecord, num_prompt_tokens: int) -> int:
        columns = self.columns
        row = self.rows[seq_id] = len(columns.seq_id)
        given: dict[str, Any] = {
            "seq_id": seq_id,
            "request_id": request_id,
            "instance": record.instance,
            "num_prompt_tokens": num_prompt_tokens,
            "submitted_in": record.index,
            "looked_in": NONE,
            "lost_in": NONE,
            "finish_reason": "",
            "admitted_in": NONE,
            "first_token_in": NONE,
            "finished_in": NONE,
        }
        for name in SequenceColumns.__struct_fields__:
            getattr(columns, name).append(given.get(name, 0))
        return row

    def _begin(self, row: int, kind: int, index: int) -> None:
        self._close(row, index)
        spans = self.spans
        self._open[row] = len(spans.row)
        spans.row.append(row)
        spans.kind.append(kind)
        spans.first.append(index)
        spans.end.append(NONE)

    def _close(self, row: int, index: int) -> None:
        span = self._open.pop(row, None)
        if span is not None:
            self.spans.end[span] = index
            self.growing_spans.change(span)

    def _end(self, row: int, index: int, reason: str) -> None:
        self._close(row, index)
        self.growing.change(row)
        self.columns.finished_in[row] = index
        self.columns.finish_reason[row] = reason
