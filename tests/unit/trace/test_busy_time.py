"""Time in which nothing was done between two steps belongs to no figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from engine.trace.busy_time import BusyTime
from engine.trace.figures import RunReading
from engine.trace.log import TraceReader
from engine.trace.records import StepRecord
from tests.paused import moments, paused

GOLDEN = Path(__file__).parents[2] / "golden" / "instances.kvtrace"
INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=20)


@given(INTERVALS, st.integers(0, 50))
def test_it_is_the_length_of_the_union(intervals: list[tuple[int, int]], at: int) -> None:
    busy = BusyTime()
    for start, length in intervals:
        busy.add(start, start + length)
    covered = {second for start, length in intervals for second in range(start, start + length)}
    assert busy.total == len(covered)
    assert busy.before(at) == sum(second < at for second in covered)


def times(log: TraceReader, records: list[StepRecord]) -> list[float]:
    reading = RunReading(log.header)
    for record in records:
        reading.read(record, 0)
    everyone = [member for members in reading.members.values() for member in members]
    return [
        reading.figures().totals.seconds,
        *(asdict(one)[name] or 0.0 for one in everyone for name in ("queue", "ttft", "seconds")),
        *(one.tpot or 0.0 for one in everyone),
    ]


def test_a_pause_changes_no_time_of_several_instances() -> None:
    with TraceReader(GOLDEN) as log:
        plain = times(log, [log.record(index) for index in range(len(log))])
        assert any(plain) and len(moments(log)) > 4
        for moment in moments(log):
            assert times(log, list(paused(log, moment, 30.0))) == pytest.approx(plain, abs=1e-9)
