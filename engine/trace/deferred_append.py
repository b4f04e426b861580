"""Appending records beside the device's work: step n's is encoded and written while the device computes step n + 1.

    step n + 1   schedule, pack, queue the forward pass | append record n | wait for the tokens of n + 1

All of it on the engine's one thread, in the gap in which the host would wait for a device that works by itself. On the
CPU there is no such gap (the forward pass is the host's own work), so there every record is appended at once.

This is the part of asynchronous scheduling for which the log stays what it is without: the same records, operations and
bytes, in the same order. vLLM schedules step n + 1 before the tokens of step n are known, with a placeholder for each.
A sequence that turns out to have ended was scheduled once more then; it was given blocks that others could have had,
and prefix hits, preemptions and block ids after that differ. A log whose operations depend on how fast tokens arrive
could not be run again, and taking such a step back would take an inverse of every operation of the cache.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.trace.records import Capture, StepRecord

Records = Callable[[StepRecord, Capture | None], None]


class DeferredAppend:
    """Appends records in order, the last one perhaps later."""

    def __init__(self, append: Records) -> None:
        self._append = append
        self._pending: tuple[StepRecord, Callable[[], Capture] | None] | None = None

    def put(self, record: StepRecord, capture: Callable[[], Capture] | None, is_last: bool) -> None:
        """Append a record and all before it. `is_last`: False where another step follows, beside which `flush` is
        called: then this one is held back until it is.

        Raises:
            Exception: as `append`; what was to be appended is dropped.
        """
        self.flush()
        self._pending = record, capture
        if is_last:
            self.flush()

    def flush(self) -> None:
        """Append what was held back. Raises: as `put`."""
        if self._pending is not None:
            (record, capture), self._pending = self._pending, None
            self._append(record, capture() if capture is not None else None)
