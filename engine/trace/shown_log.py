"""View of the first records of a log, which hides the later ones."""

from __future__ import annotations

from engine.trace.log import TraceReader


class ShownLog(TraceReader):
    """View of the first `count` records of another log, which may grow.

    Length, captures, states, bytes and figures are those of these records alone.
    """

    def __init__(self, log: TraceReader, count: int) -> None:
        """Raise ValueError if the log has fewer records."""
        if not 0 <= count <= len(log):
            raise ValueError(f"count must be from 0 to {len(log)}, the number of records, got {count}")
        self.path = None  # the file has more records
        self._file = log._file
        self._header_frame = log._header_frame
        self.header = log.header
        self._records = log._records.first(count)
        self._captures = {index: found for index, found in tuple(log._captures.items()) if index < count}
        self._keyframes = {index: found for index, found in tuple(log._keyframes.items()) if index < count}
        self.damage = None
        last = [self._header_frame, *([self._records[count - 1]] if count else [])]
        last += [frames[count - 1] for frames in (self._captures, self._keyframes) if count - 1 in frames]
        self._num_bytes = max(frame.offset + frame.length for frame in last)

    @property
    def num_bytes(self) -> int:
        """Bytes of the file up to the last of these records."""
        return self._num_bytes

    def close(self) -> None:
        """No-op, because the owner of the underlying log closes it."""
