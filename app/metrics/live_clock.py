"""Clock of a live run: the wall clock without the time in which a person paused the run."""

from __future__ import annotations

from collections.abc import Callable

from engine.trace.busy_time import step_seconds, transfer_span
from engine.trace.records import StepRecord


class LiveClock:
    """Live `engine.trace.busy_time.Clock`, for latencies as clients measure them.

    Args:
        was_halted: returns whether a person paused the run before the current record.
    """

    def __init__(self, was_halted: Callable[[], bool]) -> None:
        self.began = self.now = 0.0
        self.last = 0.0  # end of the last activity, including pauses
        self._was_halted, self._halted = was_halted, 0.0

    def read(self, record: StepRecord) -> None:
        """Read the next record. The idle time before it is excluded if the run was paused."""
        at, seconds = record.timing.at, step_seconds(record.timing)
        began, ended = transfer_span(record)
        done = [(began, ended)] if began < ended else []
        for began, ended in (*done, (at - seconds, at)):
            if self._was_halted() and began > self.last:
                self._halted += began - self.last
            self.last = max(self.last, ended)
        self.now = at - self._halted
        self.began = self.now - seconds
