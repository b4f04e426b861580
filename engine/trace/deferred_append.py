"""Deferred append: record n is encoded and written while the device computes step n + 1.

    step n + 1   schedule, pack, queue the forward pass | append record n | wait for the tokens of n + 1

The engine's thread does this while it would otherwise wait for the device. On the CPU the forward pass occupies that
thread, so every record is appended immediately.

This is the part of asynchronous scheduling that leaves the log unchanged: same records, operations and bytes, in the
same order. vLLM also schedules step n + 1 before the tokens of step n are known, with a placeholder for each. It then
schedules sequences that have in fact ended once more and allocates blocks for them, which changes later prefix hits,
preemptions and block ids. Such a log would depend on token latency and could not be reproduced. Undoing the step would
require an inverse of every cache operation.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.trace.records import Capture, StepRecord

Records = Callable[[StepRecord, Capture | None], None]


class DeferredAppend:
    """Appends records in order; the last one may be deferred."""

    def __init__(self, append: Records) -> None:
        self._append = append
        self._pending: tuple[StepRecord, Callable[[], Capture] | None] | None = None

    def put(self, record: StepRecord, capture: Callable[[], Capture] | None, is_last: bool) -> None:
        """Append the pending record, then this one. If it is not the last one, it stays pending until `flush`.

        Raises:
            Exception: any error of `append`. Records that are not appended yet are dropped.
        """
        self.flush()
        self._pending = record, capture
        if is_last:
            self.flush()

    def flush(self) -> None:
        """Append the pending record, if any. Raises the errors of `put`."""
        if self._pending is not None:
            (record, capture), self._pending = self._pending, None
            self._append(record, capture() if capture is not None else None)
