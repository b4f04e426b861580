"""Engine time of several instances: seconds in which at least one of them computed or transferred blocks.

Idle time between steps (stepping by hand, a paused run) counts in no figure. On one instance steps do not overlap, so
engine time is the sum of their seconds. `static/js/core/busy_time.js` mirrors this.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Protocol

from engine.trace.operations import Arrive
from engine.trace.records import StepRecord, Timing


def step_seconds(timing: Timing) -> float:
    """Return the engine's time for a record: the sum of its phases."""
    return timing.schedule + timing.prepare + timing.forward + timing.sample


def moved_between(record: StepRecord) -> tuple[float, float]:
    """Return the start of the first and the end of the last transfer that ended in a record; equal if there is none."""
    moved = [(op.began, op.ended) for op in record.ops if isinstance(op, Arrive)]
    at = record.timing.at
    return min((began for began, _ in moved), default=at), max((ended for _, ended in moved), default=at)


class Clock(Protocol):
    """Clock for the requests of a log; `began` and `now` are its readings for the last record read."""

    began: float  # when the record's step began
    now: float  # when the record ended

    def read(self, record: StepRecord) -> None:
        """Read the next record."""


class EngineClock:
    """Engine time. With several instances readings are wall-clock times; `elapsed` maps them once the log is read."""

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
        """Return the engine seconds before a reading."""
        return reading if self._busy is None else self._busy.before(reading)

    @property
    def total(self) -> float:
        """Engine seconds of all records."""
        return self.now if self._busy is None else self._busy.total


class BusyTime:
    """Union of clock intervals, in seconds since the trace began; added in any order."""

    def __init__(self) -> None:
        self._starts: list[float] = []  # of disjoint intervals, ascending
        self._ends: list[float] = []
        self._sums: list[float] = []  # seconds in all intervals before each

    def read(self, record: StepRecord) -> None:
        """Add the step of a record, and the transfers that ended in it."""
        self.add(record.timing.at - step_seconds(record.timing), record.timing.at)
        self.add(*moved_between(record))

    def add(self, start: float, end: float) -> None:
        """Add an interval; no-op for an empty one. Records come nearly in order, so changes are near the end."""
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
        for place in range(first, len(starts)):
            sums.append(sums[place - 1] + ends[place - 1] - starts[place - 1] if place else 0.0)

    def before(self, at: float) -> float:
        """Return the engine time at a reading of the clock."""
        place = bisect_right(self._starts, at) - 1
        if place < 0:
            return 0.0
        return self._sums[place] + min(at, self._ends[place]) - self._starts[place]

    @property
    def total(self) -> float:
        """Seconds in all intervals."""
        return self.before(self._ends[-1]) if self._ends else 0.0
