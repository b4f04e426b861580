"""The two parts of a request on several instances count as one, and pauses count in no figure."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from engine.trace.busy_time import BusyTime, EngineClock
from engine.trace.figures import RunFigures, RunReading, SequenceFigures
from engine.trace.log import TraceReader
from engine.trace.operations import Lost
from engine.trace.records import StepRecord
from engine.trace.request_account import Account
from tests.golden.make import HEADER
from tests.paused import moments, paused
from tests.unit.trace.two_instances import DECODE, MOVED, PREFILL, SHARED, numbered, record, submit


def figures(records: list[StepRecord]) -> tuple[RunFigures, list[SequenceFigures]]:
    reading = RunReading(SHARED)
    for one in numbered(records):
        reading.read(one, 100)
    return reading.figures(), [member for members in reading.members.values() for member in members]


def test_both_parts_count_as_one_request() -> None:
    run, [request] = figures([*PREFILL, *DECODE])
    assert (run.totals.requests, run.totals.unfinished) == (1, 0)
    assert run.totals.output_tokens == 2, "the token of the prefill instance is not counted"
    assert run.totals.seconds == pytest.approx(1.5 + 0.1 + 0.7 + 0.2 + 0.4), "steps and the transfer"
    assert run.totals.received_bytes == request.received_bytes == MOVED
    assert (request.seq_id, request.parts, request.finish_reason) == (1, [0, 1], "length")
    assert [token.token_id for token in request.tokens] == [8, 9]
    assert request.queue == 0, "no step began before that of its prompt"
    assert request.ttft == pytest.approx(1.5 + 0.1 + 0.7 + 0.2) and request.tpot == pytest.approx(0.4)
    assert request.num_cached_tokens == 0, "received tokens are no hits"


def test_a_request_without_tokens_survives_a_lost_instance() -> None:
    lost = record(1, 3.5, 0.0, [Lost(detail="killed")], "lost")
    again = [replace(one, timing=replace(one.timing, at=one.timing.at + 3)) for one in PREFILL]
    again[0] = replace(again[0], ops=[submit(2, "X/prefill", "kv_producer")])
    again[1] = replace(again[1], ops=[replace(op, seq_id=2) for op in again[1].ops])  # type: ignore[type-var]
    run, [request] = figures([*PREFILL, *DECODE[:2], lost, *again])
    assert (run.totals.requests, request.parts, request.tokens) == (1, [0, 1, 2], [])
    assert (request.finish_reason, request.ttft) == ("length", None), "the reason of the last part"


def test_a_request_with_tokens_is_aborted_by_a_lost_instance() -> None:
    lost = record(1, 4.6, 0.0, [Lost(detail="killed")], "lost")
    other = record(0, 6.0, 0.0, [submit(4, "X")], "submit")
    run, requests = figures([*PREFILL, *DECODE[:4], lost, other])
    assert [(one.parts, one.finish_reason) for one in requests] == [([0, 1], "abort"), ([4], None)]
    assert (run.totals.requests, run.totals.unfinished) == (2, 1), "the second request has the same name"


def test_the_log_of_one_side_of_a_transfer_has_one_request() -> None:
    """The producer's log has its sequence as the request."""
    reading = RunReading(HEADER)
    for one in numbered(PREFILL):
        reading.read(one, 100)
    [[request]] = reading.members.values()
    assert list(reading.members) == [("X/prefill", 0)] and len(request.tokens) == 1
    assert reading.figures().totals.seconds == 1.5


def test_a_bounded_account_drops_ended_requests() -> None:
    """The account of a server runs for weeks."""
    account = Account(EngineClock(is_shared=True), is_shared=True, drop_rows=True)
    for one in numbered([*PREFILL, *DECODE]):
        account.begin(one)
        for op in one.ops:
            account.handlers.get(type(op), id)(op)
    [request] = account.completed
    assert request.reasons == ["length"] and not account.rows
    tables = [value for value in vars(account.parts).values() if isinstance(value, dict | set)]
    assert len(tables) >= 5 and not any(tables)


GOLDEN = Path(__file__).parents[2] / "golden" / "instances.kvtrace"
INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=20)


@given(INTERVALS, st.integers(0, 50))
def test_busy_time_is_the_length_of_the_union(intervals: list[tuple[int, int]], at: int) -> None:
    busy = BusyTime()
    for start, length in intervals:
        busy.add(start, start + length)
    covered = {second for start, length in intervals for second in range(start, start + length)}
    assert busy.total == len(covered)
    assert busy.before(at) == sum(second < at for second in covered)


def times(log: TraceReader, records: list[StepRecord]) -> list[float]:
    reading = RunReading(log.header)
    for one in records:
        reading.read(one, 0)
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
