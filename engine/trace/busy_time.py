"""Engine time of a log: seconds in which at least one instance computed or transferred blocks.

Idle time between steps (stepping by hand, a paused run) is not engine time. On one instance steps do not overlap, so
engine time is the sum of their durations. `static/js/core/busy_time.js` mirrors this file.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Protocol

from engine.trace.operations import Arrive
from engine.trace.records import StepRecord, Timing


def step_seconds(timing: Timing) -> float:
    """Return the engine's time for a record: the sum of its phases."""
    return timing.schedule + timing.prepare + timing.forward + timing.sample


def transfer_span(record: StepRecord) -> tuple[float, float]:
    """Return the start of the first and the end of the last transfer that ended in a record; equal if there is none."""
    transfers = [(op.began, op.ended) for op in record.ops if isinstance(op, Arrive)]
    at = record.timing.at
    return min((began for began, _ in transfers), default=at), max((ended for _, ended in transfers), default=at)


class Clock(Protocol):
    """Clock for the requests of a log."""

    began: float  # reading at the start of the step of the last record read
    now: float  # reading at its end

    def read(self, record: StepRecord) -> None:
        """Read the next record."""


class EngineClock:
    """Engine time. With several instances, readings are wall-clock times until `elapsed` converts them at the end."""

    def __init__(self, is_shared: bool) -> None:
        self.began = self.now = 0.0
        self._busy = BusyTime() if is_shared else None

    def read(self, record: StepRecord) -> None:
        """Read the next record."""
        seconds = step_seconds(record.timing)
        if self._busy is None:
            self.began, self.now = self.now, self.now + seconds
        else:
            self._busy.read(record)
            self.began, self.now = record.timing.at - seconds, record.timing.at

    def elapsed(self, reading: float) -> float:
        """Return the engine time at a reading, in seconds."""
        return reading if self._busy is None else self._busy.before(reading)

    @property
    def total(self) -> float:
        """Engine time of all records, in seconds."""
        return self.now if self._busy is None else self._busy.total


class BusyTime:
    """Union of clock intervals, in seconds since the trace began. They may be added in any order."""

    def __init__(self) -> None:
        self._starts: list[float] = []  # starts of disjoint intervals, ascending
        self._ends: list[float] = []
        self._sums: list[float] = []  # total seconds of the intervals before each interval

    def read(self, record: StepRecord) -> None:
        """Add the step of a record, and the transfers that ended in it."""
        self.add(record.timing.at - step_seconds(record.timing), record.timing.at)
        self.add(*transfer_span(record))

    def add(self, start: float, end: float) -> None:
        """Add an interval; no-op for an empty one. Records are nearly in order, so the search starts at the end."""
        if end <= start:
            return
        starts, ends, sums = self._starts, self._ends, self._sums
        first = len(ends)
        while first and ends[first - 1] >= start:
            first -= 1
        after = first
        while after < len(starts) and starts[after] <= end:
            start, end = min(start, starts[after]), max(end, ends[after])
            after += 1
        starts[first:after], ends[first:after] = [start], [end]
        del sums[first:]
        for index in range(first, len(starts)):
            sums.append(sums[index - 1] + ends[index - 1] - starts[index - 1] if index else 0.0)

    def before(self, at: float) -> float:
        """Return the seconds of all intervals before a reading of the clock."""
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return 0.0
        return self._sums[index] + min(at, self._ends[index]) - self._starts[index]

    @property
    def total(self) -> float:
        """Total seconds of all intervals."""
        return self.before(self._ends[-1]) if self._ends else 0.0
