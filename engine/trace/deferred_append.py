"""Appends records while the device works: record n is encoded and written while the device computes step n + 1.

    step n + 1   schedule, pack, queue the forward pass | append record n | wait for the tokens of n + 1

It runs on the engine's thread, while the host would otherwise wait for the device. On the CPU the forward pass is the
host's own work, so every record is appended at once.

This is the part of asynchronous scheduling that leaves the log unchanged: same records, operations and bytes, in the
same order. vLLM also schedules step n + 1 before the tokens of step n are known, with a placeholder for each. A
sequence that has in fact ended is then scheduled once more and takes blocks, which changes later prefix hits,
preemptions and block ids. Such a log would depend on token latency and could not be reproduced; undoing the step would
need an inverse of every cache operation.
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
        """Append a record after any deferred one. `is_last`: False if another step follows, during which `flush` is
        called; the record is deferred until then.

        Raises:
            Exception: as `append`; the records not yet appended are dropped.
        """
        self.flush()
        self._pending = record, capture
        if is_last:
            self.flush()

    def flush(self) -> None:
        """Append the deferred record. Raises: as `put`."""
        if self._pending is not None:
            (record, capture), self._pending = self._pending, None
            self._append(record, capture() if capture is not None else None)
