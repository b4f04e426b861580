"""Trace files: `TraceReader` indexes and reads a file, and `TraceWriter` also appends to it.

Reads do not move the file position (pread), so any number of threads may read while one appends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Self

from engine.trace import codec
from engine.trace.apply import apply
from engine.trace.codec import Frame, TraceFormatError
from engine.trace.frames import FileFrames, FrameCache, RecordFrames
from engine.trace.geometry import geometry
from engine.trace.keyframe import read_keyframe
from engine.trace.limits import Budget, TooMuchError
from engine.trace.records import FORMAT, VERSION, Capture, Header, StepRecord
from engine.trace.state import State, TraceStateError, copy_state, initial_state

_frame_cache = FrameCache()
KEYFRAME_INTERVAL = 64  # minimum number of records between keyframes
MAX_PIECES = 1024  # per system call: IOV_MAX of Linux and macOS

Subscriber = Callable[[StepRecord], None]


class TraceReader:
    """A `.kvtrace` file, opened for reading.

    A damaged or truncated file still opens: the part before the damage is readable, and `damage` says where it starts
    (None: the file is valid). Without `verify` only the frame heads are read, so opening time does not depend on record
    sizes. A payload with a wrong checksum then raises TraceFormatError when it is read.

    Raises:
        TraceFormatError: the file is not a trace, has another version, or its header is damaged.
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | Path, verify: bool = True) -> None:
        self.path: Path | None = Path(path)
        self._file: IO[bytes] = open(path, "rb")  # noqa: SIM115 - closed by close()
        self._records = RecordFrames()
        self._captures: dict[int, Frame] = {}
        self._keyframes: dict[int, Frame] = {}  # by record index
        self.damage: str | None = None
        try:
            self.header = self._read_index(verify)
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._records)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Reads fail afterwards."""
        self._file.close()

    @property
    def header_bytes(self) -> bytes:
        """Encoded header."""
        return self._read(self._header_frame)

    @property
    def header_frame(self) -> Frame:
        """Frame of the header."""
        return self._header_frame

    def record_frame(self, index: int) -> Frame:
        """Return the frame of record `index`. Raises IndexError if there is no such record."""
        return self._records[index]

    def record_bytes(self, index: int) -> bytes:
        """Return the encoded bytes of record `index`.

        Raises:
            IndexError: there is no such record (yet).
        """
        if not 0 <= index < len(self._records):
            raise IndexError(f"record {index} of {len(self._records)}")
        return self._read(self._records[index])

    def record(self, index: int) -> StepRecord:
        """Return record `index`."""
        return codec.decode(self.record_bytes(index), StepRecord)

    def num_record_bytes(self, index: int) -> int:
        """Return the encoded length of record `index`."""
        return self._records[index].length

    def capture_bytes(self, index: int) -> bytes | None:
        """Return the encoded capture of record `index`, or None."""
        found = self._captures.get(index)
        return self._read(found) if found else None

    def capture(self, index: int) -> Capture | None:
        """Return the capture of record `index`, or None."""
        payload = self.capture_bytes(index)
        return codec.decode(payload, Capture) if payload else None

    def state_at(self, index: int) -> State:
        """Return the state after record `index` (-1: before the first), computed from the last keyframe before it.

        Raises:
            TraceFormatError: a record or keyframe is damaged.
            TraceStateError: a record contradicts the records before it, or exceeds the limits.
        """
        if not -1 <= index < len(self._records):
            raise IndexError(f"state {index} of {len(self._records)} records")
        start = max((i for i in tuple(self._keyframes) if i <= index), default=None)
        if start is None:
            state = initial_state(self.header)
        else:
            state = read_keyframe(self._read(self._keyframes[start]), geometry(self.header), start)
        budget = Budget()
        for i in range(state.index + 1, index + 1):
            budget.read(self.num_record_bytes(i))
            apply(state, self.record(i), budget)
        return state

    @property
    def all_record_bytes(self) -> int:
        """Bytes of all records, without captures and keyframes."""
        return self._records.num_bytes

    @property
    def num_captures(self) -> int:
        """Number of records that have a capture."""
        return len(self._captures)

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def is_replaced(self) -> bool:
        """Whether the path now names another log. False if the file was deleted."""
        own = os.fstat(self._file.fileno())
        try:
            is_same = bool(self.header_bytes) and os.path.samestat(own, os.stat(self.path or ""))
            return own.st_size < self._end_of_frames or not is_same
        except TraceFormatError:
            return True
        except OSError:
            return False

    def fileno(self) -> int:
        """Return the file descriptor, through which another program can open an unnamed log."""
        return self._file.fileno()

    @property
    def whole_end(self) -> int:
        """Offset after the last complete record, including its capture."""
        count = len(self._records)
        if count and count - 1 not in self._captures and self.record(count - 1).has_capture:
            count -= 1
        if not count:
            return self._header_frame.offset + self._header_frame.length
        last = (frames.get(count - 1) for frames in (self._captures, self._keyframes))
        return max(found.offset + found.length for found in (self._records[count - 1], *last) if found)

    def file_chunks(self, num_bytes: int, first: int = 0, chunk_size: int = 1 << 18) -> Iterator[bytes]:
        """Yield the bytes [first, num_bytes) of the file in chunks."""
        for start in range(first, num_bytes, chunk_size):
            yield os.pread(self._file.fileno(), min(chunk_size, num_bytes - start), start)

    def _read(self, found: Frame) -> bytes:
        return codec.check_payload(found, os.pread(self._file.fileno(), found.length, found.offset))

    def _read_index(self, verify: bool) -> Header:
        """Read the header, and index the frames up to the first damage."""
        fd = self._file.fileno()
        file = os.fstat(fd)
        size = file.st_size
        if os.pread(fd, len(codec.MAGIC), 0) != codec.MAGIC:
            raise TraceFormatError("not a .kvtrace file (its first bytes are not KVTRACE, version 1)")
        offset = len(codec.MAGIC)
        self._header_frame = codec.parse_frame_head(os.pread(fd, codec.FRAME_OVERHEAD, offset), offset, size)
        if self._header_frame.kind != "header":
            raise TraceFormatError(f"the first frame, at byte {offset}, is a {self._header_frame.kind}, not the header")
        header = codec.decode(self._read(self._header_frame), Header)
        if header.format != FORMAT or header.version != VERSION:
            raise TraceFormatError(f"format {header.format} {header.version}; this program reads {FORMAT} {VERSION}")
        cached = None if verify else _frame_cache.get(file)
        if cached is not None:
            self._records, self._captures, self._keyframes, self.damage = cached
            return header
        self._index_frames(fd, size, verify, self._header_frame.offset + self._header_frame.length)
        if not verify:
            _frame_cache.put(file, FileFrames(self._records, self._captures, self._keyframes, self.damage))
        return header

    def read_on(self) -> int:
        """Index the frames that were appended since the last call or opening. Returns the number of records."""
        fd = self._file.fileno()
        self.damage = None  # a partially written frame may be complete by now
        self._index_frames(fd, os.fstat(fd).st_size, False, self._end_of_frames)
        return len(self._records)

    @property
    def _end_of_frames(self) -> int:
        """Offset after the last indexed frame."""
        last = len(self._records) - 1
        ends = [self._header_frame, *([self._records[last]] if last >= 0 else [])]
        ends += [frames[last] for frames in (self._captures, self._keyframes) if last in frames]
        return max(frame.offset + frame.length for frame in ends)

    def _index_frames(self, fd: int, size: int, verify: bool, offset: int) -> None:
        """Index the frames from byte `offset` on."""
        while offset < size:
            if not verify:
                offset = self._records.append_from(fd, offset, size)
                if offset == size:
                    break
            try:
                found = codec.parse_frame_head(os.pread(fd, codec.FRAME_OVERHEAD, offset), offset, size)
                self._index_frame(found, verify)
            except TraceFormatError as error:
                self.damage = f"{error}; the {len(self._records)} records before it are readable"
                break
            offset = found.offset + found.length

    def _index_frame(self, found: Frame, verify: bool) -> None:
        if verify:
            self._read(found)
        if found.kind == "record":
            self._records.append(found)
        elif found.kind == "header":
            raise TraceFormatError(f"a second header follows at byte {found.offset}")
        elif not self._records:
            raise TraceFormatError(f"a {found.kind} precedes the first record, at byte {found.offset}")
        elif found.kind == "capture":
            self._captures[len(self._records) - 1] = found
        else:
            self._keyframes[len(self._records) - 1] = found


class LogLimitError(OSError):
    """The log cannot be continued because the next record would exceed the `limits` of readers."""


class TraceWriter(TraceReader):
    """Trace that is being written to `path`, or to an unnamed temporary file that is deleted when closed.

    Each record is applied to the state, which verifies that it follows from the records before it, and written without
    buffering. So a killed program loses at most the record being written. When the disk is full, the log ends with the
    last complete record, and later appends raise the same error.
    """

    def __init__(
        self,
        header: Header,
        path: str | Path | None = None,
        redact: Callable[[StepRecord], StepRecord] | None = None,
    ) -> None:
        """Create the file.

        `redact`: applied to each record before it is written; captures are omitted. Subscribers get the original.
        """
        self.path = Path(path) if path else None
        self._file = open(path, "w+b", buffering=0) if path else tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self.header = header
        self.damage = None
        self._records, self._captures, self._keyframes = RecordFrames(), {}, {}
        self._state = initial_state(header)
        self._budget = Budget()
        self._end = 0
        self._subscribers: list[Subscriber] = []
        self._redact = redact
        self._last_keyframe: Frame | None = None
        self._lock = threading.Lock()
        self._ended: OSError | None = None  # error that ended the log
        self._write(codec.MAGIC)
        [self._header_frame] = self._append(("header", [codec.encode(header)]))
        self._complete_end = self._end

    @property
    def num_bytes(self) -> int:
        """Bytes of the file up to the last complete record."""
        return self._complete_end

    @property
    def num_waiting(self) -> int:
        """Number of waiting sequences after the last record."""
        return len(self._state.waiting)

    def state_now(self) -> State:
        """Return a copy of the state after the last record."""
        with self._lock:
            return copy_state(self._state)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber(record)` after each append, on the appending thread. Returns the unsubscribe function."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber) if subscriber in self._subscribers else None

    def append(self, record: StepRecord, capture: Capture | None = None) -> None:
        """Append one record and its capture.

        Raises:
            TraceStateError: the record contradicts the log. Nothing is written.
            OSError: the disk is full or missing, or (LogLimitError) the record exceeds the limits. The log ends with
                the previous record and remains readable.
        """
        if record.has_capture != (capture is not None):
            raise TraceStateError(f"has_capture of record {record.index} must be {capture is not None}")
        original = record
        if self._redact is not None:
            record, capture = self._redact(record), None
        with self._lock:
            if self._ended is not None:
                raise self._ended
            try:
                payload = codec.encode(record)
                self._budget.read(len(payload))
                apply(self._state, record, self._budget)
                if capture is None:
                    [found] = self._append(("record", [payload]))
                else:
                    arrays = codec.encode_pieces(capture)
                    found, self._captures[record.index] = self._append(("record", [payload]), ("capture", arrays))
                if self._is_keyframe_due(record.index):
                    [keyframe] = self._append(("keyframe", [codec.encode(self._state)]))
                    self._keyframes[record.index] = self._last_keyframe = keyframe
            except BaseException as error:
                self._roll_back(record.index, error)
                if isinstance(self._ended, LogLimitError):
                    raise self._ended from error
                raise
            # last, so that readers never see a partially written record
            self._records.append(found)
            self._complete_end = self._end
        for subscriber in tuple(self._subscribers):
            subscriber(original)

    def _is_keyframe_due(self, index: int) -> bool:
        """Return whether a keyframe follows: every 64 records, if more bytes were written since the last than it has.

        Otherwise the keyframes of a long log would outgrow its records, because a state has every sequence so far.
        """
        if (index + 1) % KEYFRAME_INTERVAL:
            return False
        last = self._last_keyframe
        return last is None or self._end - (last.offset + last.length) >= last.length

    def _roll_back(self, index: int, error: BaseException) -> None:
        """Restore file, index and state to the previous record, after a record was only partially written."""
        ended = f"the log ended after {len(self._records)} records"
        if isinstance(error, OSError):
            self._ended = OSError(f"{ended}: {error.strerror or error}")
        elif isinstance(error.__cause__, TooMuchError):
            self._ended = LogLimitError(f"{ended}: {error.__cause__}")
        self._captures.pop(index, None)
        self._keyframes.pop(index, None)
        self._end = self._complete_end
        with contextlib.suppress(OSError):  # readers stop at the damage anyway
            self._file.truncate(self._complete_end)
            self._file.seek(self._complete_end)
        self._state = self.state_at(len(self._records) - 1)

    def _append(self, *frames: tuple[codec.FrameKind, codec.Pieces]) -> list[Frame]:
        """Write frames, each given as its kind and the pieces of its payload."""
        end, found, written = self._end, [], codec.Pieces()
        for kind, pieces in frames:
            head, frame = codec.frame_at(kind, pieces, end)
            end = frame.offset + frame.length
            found.append(frame)
            written += [head, *pieces]
        self._write(*written)
        return found

    def _write(self, *pieces: codec.Piece) -> None:
        for first in range(0, len(pieces), MAX_PIECES):
            part = pieces[first : first + MAX_PIECES]
            written, length = os.writev(self._file.fileno(), part), sum(map(len, part))
            while written < length:  # a nearly full disk writes a part; the next write raises
                written += os.writev(self._file.fileno(), [b"".join(part)[written:]])
            self._end += length
