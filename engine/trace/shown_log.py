"""Prefix of a log that a reader may see; later records are not accessible."""

from __future__ import annotations

from engine.trace.log import TraceReader


class ShownLog(TraceReader):
    """View of the first `count` records of another log, which may grow.

    Length, captures, states, bytes and figures are those of these records alone.
    """

    def __init__(self, whole: TraceReader, count: int) -> None:
        """Raises ValueError: the log has fewer records."""
        if not 0 <= count <= len(whole):
            raise ValueError(f"{count} records of {len(whole)}")
        self.path = None  # the file holds more
        self._file = whole._file
        self._header_frame = whole._header_frame
        self.header = whole.header
        self._records = whole._records.first(count)
        self._captures = {index: found for index, found in tuple(whole._captures.items()) if index < count}
        self._keyframes = {index: found for index, found in tuple(whole._keyframes.items()) if index < count}
        self.damage = None
        last = [self._header_frame, *([self._records[count - 1]] if count else [])]
        last += [frames[count - 1] for frames in (self._captures, self._keyframes) if count - 1 in frames]
        self._num_bytes = max(frame.offset + frame.length for frame in last)

    @property
    def num_bytes(self) -> int:
        """Bytes of the file up to the last of these records."""
        return self._num_bytes

    def close(self) -> None:
        """No-op: the owner of the whole log closes it."""
