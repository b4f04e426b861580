"""Metrics of requests that run on several instances."""

from pathlib import Path

import numpy as np
import pytest

from app.metrics import names
from app.metrics.fold import Fold
from app.metrics.tally import Tally
from engine.trace.apply import apply
from engine.trace.figures import RunReading
from engine.trace.log import TraceReader
from engine.trace.log_index.series import RECORD, SeriesRows
from engine.trace.operations import Arrive, Lost, TransferFailed
from engine.trace.query.database import LogDatabase
from engine.trace.records import StepRecord
from engine.trace.state import initial_state
from tests.paused import moments, paused
from tests.unit.app.metrics_runs import folded
from tests.unit.trace.two_instances import DECODE, MOVED, PREFILL, SHARED, numbered, record

GOLDEN = Path(__file__).parents[2] / "golden" / "instances.kvtrace"


def test_requests_on_two_instances_count_once() -> None:
    tally, fold, [request] = folded(SHARED, numbered([*PREFILL, *DECODE]))
    counted = {name: sum(values.values()) for name, values in tally.counters.items()}
    assert counted[names.PROMPT_TOKENS.name] == 3 and counted[names.GENERATION_TOKENS.name] == 2
    assert counted[names.SUCCESS.name] == 1 and counted[names.EXTERNAL_HITS.name] == 0
    assert tally.counters[names.BY_SOURCE.name][("local_compute",)] == 3, (
        "transferred tokens were computed locally before"
    )
    assert counted[names.TRANSFERRED.name] == MOVED
    seconds = {
        names.TTFT: 4.5 - 1.0,
        names.E2E: 5.0 - 1.0,
        names.QUEUE: (3.0 - 1.5) - 1.0,
        names.PREFILL: 1.5,
        names.TRANSFER_TIME: 4.0 - 3.3,
        names.DECODE: 5.0 - 4.5,
        names.ITL: 5.0 - 4.5,
    }
    for metric, expected in seconds.items():
        assert (tally.histograms[metric.name].count, metric.name) == (1, metric.name)
        assert tally.histograms[metric.name].sum == pytest.approx(expected), metric.name
    assert (request.request_id, request.reasons) == ("X", ["length"])
    assert (fold.num_running, fold.num_waiting, fold._account.rows) == (0, 0, {})


@pytest.mark.parametrize(("count", "reasons"), [(2, []), (4, ["error"])])
def test_losing_an_instance_after_tokens_is_an_error(count: int, reasons: list[str]) -> None:
    lost = record(1, 4.6, 0.0, [Lost(detail="killed")], "lost")
    tally, fold, ended = folded(SHARED, numbered([*PREFILL, *DECODE[:count], lost]))
    assert [reason for request in ended for reason in request.reasons] == reasons
    assert tally.counters[names.SUCCESS.name][("error",)] == len(reasons)
    assert (fold.num_running, fold.num_waiting) == (0, 0)


def test_metrics_of_three_instances_equal_their_log() -> None:
    with TraceReader(GOLDEN) as log:
        header, records = log.header, [log.record(index) for index in range(len(log))]
    reading, state, fold = RunReading(header), initial_state(header), Fold(header, tally := Tally(64), lambda: True)
    series = SeriesRows(header)
    ended = []
    for one in records:
        apply(state, one)
        reading.read(one, 0)
        series.add(one, state)
        ended += fold.read(one)
        assert fold.num_running == len(state.running), one.index
        assert fold.num_waiting == len(state.waiting) + len(state.receiving), one.index
    totals = reading.figures().totals
    with TraceReader(GOLDEN) as log, LogDatabase(log) as database:
        [[queried]] = database.ask("SELECT sum(json_extract(fields, '$.num_tokens')) FROM events WHERE is_query").rows
    by_record = np.frombuffer(series.take(), dtype=RECORD)
    assert queried == totals.asked_tokens == by_record["asked"].sum() == 17 * 4 + 9 * 2, "without decode instances"
    assert queried == tally.counters[names.QUERIES.name][()]
    assert totals.hit_tokens == tally.counters[names.HITS.name][()]
    requests = [member for members in reading.members.values() for member in members]
    counted = {name: sum(values.values()) for name, values in tally.counters.items()}
    assert len(ended) == totals.requests == len({request.request_id for request in ended}) == 6
    assert counted[names.GENERATION_TOKENS.name] == totals.output_tokens
    assert counted[names.PROMPT_TOKENS.name] == sum(len(one.prompt_token_ids) for one in requests if one.tokens)
    assert tally.histograms[names.TTFT.name].count == sum(1 for one in requests if one.tokens)
    assert tally.histograms[names.TTFT.name].sum == pytest.approx(sum(one.ttft or 0 for one in requests))
    assert tally.counters[names.SUCCESS.name][("error",)] == sum(one.finish_reason == "abort" for one in requests) > 0
    ops = [op for one in records for op in one.ops]
    moved = [op for op in ops if isinstance(op, Arrive)]
    assert counted[names.TRANSFERRED.name] == sum(op.num_bytes for op in moved) == totals.received_bytes > 0
    assert tally.histograms[names.TRANSFER_TIME.name].count == len(moved)
    failed = [op for op in ops if isinstance(op, TransferFailed)]
    assert counted[names.FAILED_TRANSFERS.name] == len(failed) > 0


def test_pauses_between_manual_steps_change_no_latency() -> None:
    latencies = [
        names.TTFT,
        names.ITL,
        names.TPOT,
        names.E2E,
        names.QUEUE,
        names.PREFILL,
        names.DECODE,
        names.INFERENCE,
    ]

    def sums(records: list[StepRecord]) -> list[float]:
        fold = Fold(header, tally := Tally(64), lambda: True)
        for one in records:
            fold.read(one)
        return [tally.histograms[metric.name].sum for metric in latencies]

    with TraceReader(GOLDEN) as log:
        header = log.header
        plain = sums([log.record(index) for index in range(len(log))])
        assert all(plain)
        for moment in moments(log):
            assert sums(list(paused(log, moment, 30.0))) == pytest.approx(plain, abs=1e-9)
