"""Where the records of a log lie in its file: 16 bytes each, for a log may have hundreds of thousands."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator

from engine.trace.codec import FRAME_OVERHEAD, Frame, record_head


class RecordFrames:
    """The frames of records, by index."""

    def __init__(self) -> None:
        self._offsets, self._lengths, self._checksums = array("Q"), array("I"), array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> Frame:
        """Raises IndexError: there is none."""
        return Frame("record", self._offsets[index], self._lengths[index], self._checksums[index])

    def __iter__(self) -> Iterator[Frame]:
        return (self[index] for index in range(len(self)))

    def first(self, count: int) -> RecordFrames:
        """Those of the first `count` records, as a copy."""
        found = RecordFrames()
        found._offsets, found._lengths = self._offsets[:count], self._lengths[:count]
        found._checksums = self._checksums[:count]
        return found

    def append(self, frame: Frame) -> None:
        """The next record's."""
        self._offsets.append(frame.offset)
        self._lengths.append(frame.length)
        self._checksums.append(frame.checksum)

    def take(self, fd: int, offset: int, size: int) -> int:
        """Add the records that lie one after the other from byte `offset` of a file of `size` bytes on, by their heads.
        Returns where something else begins: another kind of frame, damage, the end.
        """
        add_offset, add_length, add_checksum = self._offsets.append, self._lengths.append, self._checksums.append
        while (head := record_head(os.pread(fd, FRAME_OVERHEAD, offset))) is not None:
            length, checksum = head
            start = offset + FRAME_OVERHEAD
            if start + length > size:
                break
            add_offset(start)
            add_length(length)
            add_checksum(checksum)
            offset = start + length
        return offset
