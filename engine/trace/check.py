"""Check a file against docs/reference/trace-format.md: every frame, record and array.

The state is computed with `apply.apply`, the reference implementation, and compared with the redundant parts of the
file: batch, outputs, memory, keyframes, arrays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

from msgspec import Struct

from engine.trace import codec
from engine.trace.apply import apply
from engine.trace.check_arrays import wrong_in_capture
from engine.trace.check_figures import IncrementalFigures
from engine.trace.check_forgetting import ForgettingChecker
from engine.trace.check_record import wrong_in_record
from engine.trace.check_state import num_items, wrong_in_state
from engine.trace.check_transfers import TransferChecker
from engine.trace.codec import Frame, TraceFormatError
from engine.trace.geometry import Geometry, geometry
from engine.trace.keyframe import read_keyframe
from engine.trace.limits import Budget
from engine.trace.records import FORMAT, VERSION, Capture, Header, StepRecord
from engine.trace.state import State, TraceStateError, initial_state

BYTES_PER_ITEM = 4  # the whole state is checked again after this many bytes of records for each item in it

T = TypeVar("T")


class Finding(Struct, frozen=True, kw_only=True):
    """Contradiction found in a log."""

    offset: int  # byte at which the frame starts
    record: int | None  # record index
    operation: int | None  # index among the record's operations
    message: str

    def __str__(self) -> str:
        where = f"byte {self.offset}"
        if self.record is not None:
            where += f", record {self.record}"
        if self.operation is not None:
            where += f", operation {self.operation}"
        return f"{where}: {self.message}"


class Counts(Struct, kw_only=True):
    """Totals of a checked file."""

    num_bytes: int = 0
    num_records: int = 0
    num_captures: int = 0


def check(
    path: str | Path, counts: Counts | None = None, progress: Callable[[int, int], None] | None = None
) -> Iterator[Finding]:
    """Yield every finding in file order; none for a valid file.

    `counts` is filled during the check. `progress` is called with bytes read and total bytes. Frames after a damaged
    frame cannot be located. Records after one that contradicts the state are checked without the state.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        yield from _Check(file, counts or Counts(), progress).findings()


class _Check:
    def __init__(self, file: IO[bytes], counts: Counts, progress: Callable[[int, int], None] | None) -> None:
        self._fd = file.fileno()
        self._counts, self._progress = counts, progress
        self._size = counts.num_bytes = os.fstat(self._fd).st_size
        self._header: Header | None = None
        self._state: State | None = None  # None: unknown
        self._pools: Geometry | None = None
        self._figures: IncrementalFigures | None = None
        self._forgetting: ForgettingChecker | None = None
        self._budget = Budget()
        self._bytes_to_check = 0  # bytes of records to read before the whole state is checked again
        self._last_checked = -1  # index of the record after which the whole state was last checked
        self._record: StepRecord | None = None  # the last record; None if it is invalid
        self._record_offset = 0
        self._captured = False  # whether the last record's capture was read
        self._last_at: dict[int, float] = {}  # instance -> `timing.at` of its last record
        self._transfers = TransferChecker()

    def findings(self) -> Iterator[Finding]:
        if os.pread(self._fd, len(codec.MAGIC), 0) != codec.MAGIC:
            yield _at(0, "not a .kvtrace file: its first 8 bytes are not 4B 56 54 52 41 43 45 01")
            return
        offset, first = len(codec.MAGIC), True
        while offset < self._size or first:
            try:
                frame = codec.parse_frame_head(os.pread(self._fd, codec.FRAME_OVERHEAD, offset), offset, self._size)
                payload = codec.check_payload(frame, os.pread(self._fd, frame.length, frame.offset))
                if first and frame.kind != "header":
                    raise TraceFormatError(f"the first frame is a {frame.kind}, not the header")
            except TraceFormatError as error:
                rest = f"; nothing after it was read ({self._size - offset} bytes)"
                yield _at(offset, f"{error}{rest}")
                break
            first = False
            for finding in self._frame(frame, payload):
                yield finding
                if self._header is None:
                    return
            offset = frame.offset + frame.length
            if self._progress:
                self._progress(offset, self._size)
        yield from self._end_of_record()
        yield from self._whole_state(at_end=True)
        for message in self._transfers.unreceived():
            yield _at(self._record_offset, message, self._counts.num_records - 1)

    def _frame(self, frame: Frame, payload: bytes) -> Iterator[Finding]:
        offset = frame.offset - codec.FRAME_OVERHEAD
        try:
            match frame.kind:
                case "header":
                    yield from self._read_header(offset, payload)
                case "record":
                    yield from self._read_record(offset, payload)
                case "capture":
                    yield from self._read_capture(offset, payload)
                case "keyframe":
                    yield from self._read_keyframe(offset, payload)
        except TraceFormatError as error:
            yield _at(offset, str(error))

    def _read_header(self, offset: int, payload: bytes) -> Iterator[Finding]:
        if self._header is not None:
            yield _at(offset, "the file has a second header")
            return
        header = codec.decode(payload, Header)
        if header.format != FORMAT or header.version != VERSION:
            yield _at(offset, f"format {header.format!r} version {header.version}; supported is {FORMAT!r} {VERSION}")
            return
        try:
            self._pools = geometry(header)
            self._state = initial_state(header)
            self._figures = IncrementalFigures(self._state)
        except TraceStateError as error:
            yield _at(offset, str(error))
            return
        self._header, self._forgetting = header, ForgettingChecker(header)

    def _read_record(self, offset: int, payload: bytes) -> Iterator[Finding]:
        yield from self._end_of_record()
        expected, before = self._counts.num_records, self._record
        self._counts.num_records += 1
        self._record, self._record_offset, self._captured = None, offset, False
        try:
            record = codec.decode(payload, StepRecord)
        except TraceFormatError as error:
            self._state = None
            yield _at(offset, str(error), expected)
            return
        if record.index != expected:
            self._state = None
            yield _at(offset, f"its index is {record.index}", expected)
            return
        self._record = record
        assert self._header is not None
        if self._state is not None:
            self._budget.read(len(payload))
            self._bytes_to_check -= len(payload)
            try:
                apply(self._state, record, self._budget)
            except TraceStateError as error:
                self._state = None
                reason = str(error).removeprefix(f"record {expected}, operation {error.operation} ")
                message = f"{reason}; the state is unknown from here on"
                yield _at(offset, message, expected, error.operation)
        last_at = self._last_at.get(record.instance, 0.0)
        for operation, message in wrong_in_record(record, before, last_at, self._state, self._header):
            yield _at(offset, message, expected, operation)
        self._last_at[record.instance] = record.timing.at
        if len(self._header.instances) > 1:
            for operation, message in self._transfers.wrong_in(record):
                yield _at(offset, message, expected, operation)
        if self._state is not None:
            assert self._figures is not None and self._forgetting is not None
            self._figures.add(record)
            for operation, message in self._forgetting.wrong_in(record):
                yield _at(offset, message, expected, operation)
        if self._state is not None and self._figures is not None and not record.integrity:
            figures = self._figures.figures()
            for name in figures.__struct_fields__:
                stated, counted = getattr(record.memory, name), getattr(figures, name)
                if stated != counted:
                    yield _at(offset, f"memory.{name} is {stated}, but the operations make it {counted}", expected)
            yield from self._whole_state()

    def _read_capture(self, offset: int, payload: bytes) -> Iterator[Finding]:
        index = self._counts.num_records - 1
        self._counts.num_captures += 1
        if index < 0:
            yield _at(offset, "a capture precedes the first record")
            return
        if self._captured:
            yield _at(offset, "the record has a second capture", index)
            return
        self._captured = True
        capture = codec.decode(payload, Capture)
        if capture.index != index:
            yield _at(offset, f"the capture has the index {capture.index}", index)
        if self._record is None:
            return
        if not self._record.has_capture:
            yield _at(offset, "a capture follows, although has_capture is false", index)
        assert self._header is not None
        for message in wrong_in_capture(capture, self._record, self._header):
            yield _at(offset, f"capture: {message}", index)
        if self._state is not None and self._forgetting is not None:
            for message in self._forgetting.wrong_in_capture(capture):
                yield _at(offset, f"capture: {message}", index)

    def _read_keyframe(self, offset: int, payload: bytes) -> Iterator[Finding]:
        index = self._counts.num_records - 1
        assert self._pools is not None
        keyframe = read_keyframe(payload, self._pools, index)
        if self._state is not None and keyframe != self._state:
            names = [n for n in State.__struct_fields__ if getattr(keyframe, n) != getattr(self._state, n)]
            message = f"the keyframe differs from the state after the operations in {', '.join(names)}"
            yield _at(offset, message, index)

    def _end_of_record(self) -> Iterator[Finding]:
        if self._record is not None and self._record.has_capture and not self._captured:
            message = "has_capture is true, but no capture follows"
            yield _at(self._record_offset, message, self._record.index)

    def _whole_state(self, at_end: bool = False) -> Iterator[Finding]:
        """Check the whole state if that is due; yield each finding once.

        The time for these checks is bounded: a large state is checked only after enough bytes of further records.
        """
        if self._state is None or self._record is None or self._record.integrity:
            return
        index = self._record.index
        if index == self._last_checked or (self._bytes_to_check > 0 and not at_end):
            return
        since = "its operations" if index == self._last_checked + 1 else f"the records since {self._last_checked + 1}"
        wrong = list(wrong_in_state(self._state, self._header is not None and self._header.observed is not None))
        for message in wrong:
            yield _at(self._record_offset, f"after {since} {message}", index)
        if wrong:
            self._state = None
        else:
            self._last_checked = index
            self._bytes_to_check = BYTES_PER_ITEM * num_items(self._state)


def _at(offset: int, message: str, record: int | None = None, operation: int | None = None) -> Finding:
    return Finding(offset=offset, record=record, operation=operation, message=message)
