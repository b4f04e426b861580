"""Positions of a log's records in its file, in 16 bytes per record, because a log may have hundreds of thousands."""

from __future__ import annotations

import os
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from engine.trace.codec import FRAME_OVERHEAD, Frame, record_head

MIN_CACHED_RECORDS = 10_000  # the frames of shorter files are not cached
MAX_CACHED_FILES = 4


class RecordFrames:
    """Frames of records, by index. Other threads may read while one appends."""

    def __init__(self) -> None:
        self._offsets, self._lengths, self._checksums = array("Q"), array("I"), array("I")
        self.num_bytes = 0  # bytes of all records, without captures and keyframes

    def __len__(self) -> int:
        return len(self._checksums)  # the last of the three to grow

    def __getitem__(self, index: int) -> Frame:
        """Return the frame of a record. Raises IndexError if there is no such record."""
        return Frame("record", self._offsets[index], self._lengths[index], self._checksums[index])

    def __iter__(self) -> Iterator[Frame]:
        return (self[index] for index in range(len(self)))

    def first(self, count: int) -> RecordFrames:
        """Return a copy with the first `count` records."""
        found = RecordFrames()
        found._offsets, found._lengths = self._offsets[:count], self._lengths[:count]
        found._checksums = self._checksums[:count]
        found.num_bytes = sum(found._lengths)
        return found

    def append(self, frame: Frame) -> None:
        """Append the frame of the next record."""
        self._offsets.append(frame.offset)
        self._lengths.append(frame.length)
        self.num_bytes += frame.length
        self._checksums.append(frame.checksum)

    def append_from(self, fd: int, offset: int, size: int) -> int:
        """Append the consecutive records from byte `offset` of a file of `size` bytes on. Reads only their frame heads.

        Returns the offset after them: that of another kind of frame, of damage, or of the end.
        """
        add_offset, add_length, add_checksum = self._offsets.append, self._lengths.append, self._checksums.append
        while (head := record_head(os.pread(fd, FRAME_OVERHEAD, offset))) is not None:
            length, checksum = head
            start = offset + FRAME_OVERHEAD
            if start + length > size:
                break
            add_offset(start)
            add_length(length)
            self.num_bytes += length
            add_checksum(checksum)
            offset = start + length
        return offset


class FileFrames(NamedTuple):
    """Frames of a file, found by walking the frame heads."""

    records: RecordFrames
    captures: dict[int, Frame]  # by record
    keyframes: dict[int, Frame]
    damage: str | None

    def copy(self) -> FileFrames:
        """Return a copy that a reader may extend."""
        return FileFrames(self.records.first(len(self.records)), dict(self.captures), dict(self.keyframes), self.damage)


class FrameCache:
    """Cache of the frames of recently opened long files. A changed file is a miss.

    A file is opened several times before it is shown, and reading 300,000 frame heads takes a second.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[int, ...], FileFrames] = OrderedDict()

    def get(self, file: os.stat_result) -> FileFrames | None:
        """Return the cached frames of a file."""
        with self._lock:
            found = self._found.get(_stamp(file))
            return found.copy() if found else None

    def put(self, file: os.stat_result, found: FileFrames) -> None:
        """Cache the frames of a long file. `file`: stat of the file before its frames were read, since it may grow."""
        if len(found.records) < MIN_CACHED_RECORDS:
            return
        with self._lock:
            self._found[_stamp(file)] = found.copy()
            while len(self._found) > MAX_CACHED_FILES:
                self._found.popitem(last=False)


def _stamp(file: os.stat_result) -> tuple[int, ...]:
    return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns
