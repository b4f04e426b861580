"""A request that two instances had is one: its times begin where it came, its tokens are the second one's."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.trace.account import Account
from engine.trace.busy_time import EngineClock
from engine.trace.events import Lost
from engine.trace.figures import RunFigures, RunReading, SequenceFigures
from engine.trace.records import StepRecord
from tests.golden.make import HEADER
from tests.unit.trace.two_instances import DECODE, MOVED, PREFILL, SHARED, numbered, record, submit


def figures(records: list[StepRecord]) -> tuple[RunFigures, list[SequenceFigures]]:
    reading = RunReading(SHARED)
    for one in numbered(records):
        reading.read(one, 100)
    return reading.figures(), [member for members in reading.members.values() for member in members]


def test_what_two_instances_computed_is_one_request() -> None:
    run, [request] = figures([*PREFILL, *DECODE])
    assert (run.totals.requests, run.totals.unfinished) == (1, 0)
    assert run.totals.output_tokens == 2, "the token of who computed the prompt counts nowhere"
    assert run.totals.seconds == pytest.approx(1.5 + 0.1 + 0.7 + 0.2 + 0.4), "steps and the transfer"
    assert run.totals.received_bytes == request.received_bytes == MOVED
    assert (request.seq_id, request.parts, request.finish_reason) == (1, [0, 1], "length")
    assert [token.token_id for token in request.tokens] == [8, 9]
    assert request.queue == 0, "nothing was computed until the step that computed its prompt began"
    assert request.ttft == pytest.approx(1.5 + 0.1 + 0.7 + 0.2) and request.tpot == pytest.approx(0.4)
    assert request.num_cached_tokens == 0, "what was moved was computed, not found"


def test_a_part_that_is_lost_before_it_had_tokens_is_gone_on_with() -> None:
    lost = record(1, 3.5, 0.0, [Lost(detail="killed")], "lost")
    again = [replace(one, timing=replace(one.timing, at=one.timing.at + 3)) for one in PREFILL]
    again[0] = replace(again[0], ops=[submit(2, "X/prefill", "kv_producer")])
    again[1] = replace(again[1], ops=[replace(op, seq_id=2) for op in again[1].ops])  # type: ignore[type-var]
    run, [request] = figures([*PREFILL, *DECODE[:2], lost, *again])
    assert (run.totals.requests, request.parts, request.tokens) == (1, [0, 1, 2], [])
    assert (request.finish_reason, request.ttft) == ("length", None), "of its last part; nothing came of it yet"


def test_a_part_that_is_lost_with_tokens_ends_the_request() -> None:
    lost = record(1, 4.6, 0.0, [Lost(detail="killed")], "lost")
    other = record(0, 6.0, 0.0, [submit(4, "X")], "submit")
    run, requests = figures([*PREFILL, *DECODE[:4], lost, other])
    assert [(one.parts, one.finish_reason) for one in requests] == [([0, 1], "abort"), ([4], None)]
    assert (run.totals.requests, run.totals.unfinished) == (2, 1), "the second is another of the same name"


def test_what_one_instance_writes_alone_has_no_parts() -> None:
    """The log of one side of a transfer: there the producer's sequence is the request."""
    reading = RunReading(HEADER)
    for one in numbered(PREFILL):
        reading.read(one, 100)
    [[request]] = reading.members.values()
    assert list(reading.members) == [("X/prefill", 0)] and len(request.tokens) == 1
    assert reading.figures().totals.seconds == 1.5


def test_an_account_that_forgets_keeps_nothing_of_what_has_ended() -> None:
    """A server folds its runs for weeks."""
    account = Account(EngineClock(is_shared=True), is_shared=True, forgets=True)
    for one in numbered([*PREFILL, *DECODE]):
        account.begin(one)
        for op in one.ops:
            account.handlers.get(type(op), id)(op)
    [request] = account.over
    assert request.reasons == ["length"] and not account.rows
    kept = [value for value in vars(account.parts).values() if isinstance(value, dict | set)]
    assert len(kept) >= 5 and not any(kept)
