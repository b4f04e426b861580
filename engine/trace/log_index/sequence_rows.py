"""Table rows of sequences: their figures (`engine.trace.request_account`), and their waiting and running spans.

The figures use a clock that counts records, so their times are record indices.
"""

from __future__ import annotations

from msgspec import Struct

from engine.trace.log_index.class_rows import NONE, ClassColumns, Classes
from engine.trace.log_index.columns import Growing, Patch
from engine.trace.operations import Admit, Arrive, Await, Fork, Lookup, Preempt, Sample, Submit
from engine.trace.records import Header, StepRecord
from engine.trace.request_account import Account, SequenceRow
from engine.trace.request_parts import RequestParts

WAITING, RUNNING, PREEMPTED = 0, 1, 2  # kinds of a span
SPANS = {Submit: WAITING, Fork: RUNNING, Admit: RUNNING, Preempt: PREEMPTED, Await: WAITING, Arrive: WAITING}
CHANGING = (
    *("num_cached_tokens", "num_output_tokens", "num_preemptions", "looked_in", "lost_in", "admitted_in"),
    *("first_token_in", "finished_in", "finish_reason"),
)
INHERITED = ("client", "priority", "prefix")  # columns that a fork copies from its parent


class SequenceColumns(Struct, kw_only=True, array_like=True):
    """Columns with one entry per sequence, in submission order. Events are record indices, NONE before they occur."""

    seq_id: list[int] = []
    request_id: list[str] = []
    instance: list[int] = []
    num_prompt_tokens: list[int] = []
    num_cached_tokens: list[int] = []  # at its first admission
    num_output_tokens: list[int] = []
    num_preemptions: list[int] = []
    looked_in: list[int] = []  # last lookup before its admission, if it missed an evicted block
    lost_in: list[int] = []  # eviction of that block
    submitted_in: list[int] = []
    admitted_in: list[int] = []  # first admission
    first_token_in: list[int] = []
    finished_in: list[int] = []
    finish_reason: list[str] = []  # empty: not finished


class SpanColumns(Struct, kw_only=True, array_like=True):
    """Columns with one entry per span, in order of their beginning."""

    row: list[int] = []  # row of the sequence
    kind: list[int] = []  # WAITING, RUNNING or PREEMPTED
    first: list[int] = []  # record in which it began
    end: list[int] = []  # record in which it ended; NONE: not ended


class RecordClock:
    """Clock that counts records (`engine.trace.busy_time.Clock`)."""

    began: float = -1
    now: float = -1

    def read(self, record: StepRecord) -> None:
        """Read the next record."""
        self.began = self.now = record.index


class SequenceRows:
    """Builder of the columns, record by record. Changed rows are updated by `take`."""

    def __init__(self, header: Header) -> None:
        self.columns, self.spans = SequenceColumns(), SpanColumns()
        self.classes = ClassColumns(texts_unknown=bool(header.engine.get("private")))
        self.rows: dict[int, int] = {}  # seq_id -> row
        self._growing = Growing(self.columns, CHANGING)
        self._growing_spans = Growing(self.spans, ("end",))
        self._growing_classes = Growing(self.classes, ("last_token_in", "num_preemptions"))
        self._account = Account(RecordClock(), drop_rows=True)
        self._parts = RequestParts(len(header.instances) > 1)
        self._classes = Classes(self.classes)
        self._changed: dict[int, SequenceRow] = {}  # by row
        self._preempted_before: dict[int, int] = {}  # row of a fork -> preemptions of its parent before it
        self._open: dict[int, int] = {}  # row -> its open span

    def add(self, record: StepRecord) -> None:
        """Read the next record."""
        account, parts, rows, changed = self._account, self._parts, self.rows, self._changed
        account.begin(record)
        before = None
        for op in record.ops:
            kind = type(op)
            if parts.is_shared:
                before = parts.read(op, record.instance)
            if kind is Sample:
                changed[rows[op.seq_id]] = account.sample(op)  # type: ignore[arg-type, index, union-attr]
            elif kind is Lookup:
                self._record_miss(op, record.index)  # type: ignore[arg-type]
            elif (handler := account.handlers.get(kind)) is not None:
                handler(op)
                if isinstance(op, Submit | Fork):
                    self._add_row(op, record, before)
                if kind in SPANS:
                    row = rows[op.seq_id]  # type: ignore[index, union-attr]
                    changed[row] = account.rows[op.seq_id]  # type: ignore[index, union-attr]
                    self._begin_span(row, SPANS[kind], record.index)
        for ended in account.ended:
            row = rows[ended.seq_id]
            changed[row] = ended
            self._end_span(row, record.index)
            self.columns.finished_in[row] = record.index

    def take(self) -> tuple[Patch[SequenceColumns], Patch[SpanColumns], Patch[ClassColumns]]:
        """Return the differences since the last call."""
        columns, classes = self.columns, self.classes
        for row, one in self._changed.items():
            request = one.request
            columns.num_cached_tokens[row] = request.num_cached_tokens - request.num_external_tokens
            columns.num_output_tokens[row] = one.num_output_tokens
            columns.num_preemptions[row] = self._preempted_before.get(row, 0) + one.num_preemptions
            columns.admitted_in[row] = NONE if request.scheduled is None else int(request.scheduled)
            columns.first_token_in[row] = NONE if one.first_token is None else int(one.first_token)
            columns.finish_reason[row] = one.finish_reason or ""
            classes.last_token_in[row] = NONE if one.last_token is None else int(one.last_token)
            classes.num_preemptions[row] = one.num_preemptions
            self._growing.change(row)
            self._growing_classes.change(row)
        self._changed.clear()
        return self._growing.take(), self._growing_spans.take(), self._growing_classes.take()

    def _add_row(self, op: Submit | Fork, record: StepRecord, before: int | None) -> None:
        row = self.rows[op.seq_id] = len(self.columns.seq_id)
        one = self._account.rows[op.seq_id]
        if isinstance(op, Submit):
            class_entries = self._classes.of(op)
            class_entries["before"] = NONE if before is None else self.rows[before]
        else:
            parent = self.rows[op.parent_seq_id]
            class_entries = {name: getattr(self.classes, name)[parent] for name in INHERITED}
            class_entries["parent"] = parent
            preempted = self._account.rows[op.parent_seq_id].num_preemptions
            self._preempted_before[row] = self._preempted_before.get(parent, 0) + preempted
        entries = {
            "seq_id": op.seq_id, "request_id": op.request_id, "instance": record.instance, "finish_reason": "",
            "num_prompt_tokens": one.request.num_prompt_tokens, "submitted_in": record.index,
        }  # fmt: skip
        for name in SequenceColumns.__struct_fields__:
            getattr(self.columns, name).append(entries.get(name, NONE))
        for name in ("client", "priority", "prefix", "parent", "before", "last_token_in", "num_preemptions"):
            getattr(self.classes, name).append(class_entries.get(name, NONE))

    def _record_miss(self, op: Lookup, index: int) -> None:
        """Record the eviction of the block that a lookup before the first admission missed."""
        if self._account.rows[op.seq_id].request.scheduled is not None:
            return
        row, lost = self.rows[op.seq_id], op.evicted_in if op.reason == "evicted" else None
        self.columns.looked_in[row] = NONE if lost is None else index
        self.columns.lost_in[row] = NONE if lost is None else lost
        self._growing.change(row)

    def _begin_span(self, row: int, kind: int, index: int) -> None:
        self._end_span(row, index)
        spans = self.spans
        self._open[row] = len(spans.row)
        spans.row.append(row)
        spans.kind.append(kind)
        spans.first.append(index)
        spans.end.append(NONE)

    def _end_span(self, row: int, index: int) -> None:
        span = self._open.pop(row, None)
        if span is not None:
            self.spans.end[span] = index
            self._growing_spans.change(span)
