"""Metrics of a run equal those computed from its log independently: by figures, by reducer, by hand."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import pytest
from msgspec import structs

from app.metrics import names
from app.metrics.buckets import tokens_up_to
from app.metrics.fold import Fold
from app.metrics.names import Metric
from app.metrics.tally import Tally
from engine.engine import Engine
from engine.trace.apply import apply
from engine.trace.figures import RunFigures, RunReading, SequenceFigures
from engine.trace.operations import Admit, Copy, Evict, Finish, Fork, Lookup, Preempt, Sample, Submit, SwapIn
from engine.trace.records import Header, StepRecord, Timing
from engine.trace.state import initial_state
from tests.unit.app.metrics_runs import folded, recorded, retimed
from tests.unit.engine.runs import CONFIGS, GREEDY, POLICIES, log_of, ops_of, tiny_llama

T = TypeVar("T")
SCENARIOS = [*CONFIGS, *POLICIES]  # each has arrivals, an abort, samples, beams and an adjustment


def figures_of(header: Header, records: list[StepRecord]) -> tuple[RunFigures, list[SequenceFigures]]:
    reading = RunReading(header)
    for record in records:
        reading.read(record, 0)
    return reading.figures(), [member for members in reading.members.values() for member in members]


def ops_in(records: list[StepRecord], kind: type[T]) -> list[T]:
    return [op for record in records for op in ops_of(record, kind)]


def value(tally: Tally, counter: Metric, *labels: str) -> float:
    return tally.counters[counter.name][labels]


def assert_observed(tally: Tally, metric: Metric, values: Sequence[float]) -> None:
    """Check that exactly these values were observed, each in the bucket with the smallest bound not below it."""
    histogram = tally.histograms[metric.name]
    assert histogram.count == len(values), metric.name
    assert histogram.sum == pytest.approx(sum(values)), metric.name
    counts = [0] * (len(histogram.bounds) + 1)
    for one in values:
        counts[bisect_left(histogram.bounds, one)] += 1
    assert histogram.counts == counts, metric.name


def count_recomputed(records: Sequence[StepRecord]) -> int:
    """Number of computed tokens lost by preemption that were not restored at readmission."""
    lost, found = dict[int, int](), 0
    for op in (op for record in records for op in record.ops):
        if isinstance(op, Preempt):
            lost[op.seq_id] = op.num_computed_tokens
        elif isinstance(op, Admit):
            num_loaded = op.num_cached_tokens + op.num_swapped_tokens + op.num_external_tokens
            found += max(0, lost.pop(op.seq_id, 0) - num_loaded)
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_counters_equal_the_runs_figures(name: str) -> None:
    header, records = recorded(name)
    tally, _, _ = folded(header, records)
    totals, sequences = figures_of(header, records)[0].totals, figures_of(header, records)[1]
    assert value(tally, names.GENERATION_TOKENS) == totals.output_tokens
    assert value(tally, names.QUERIES) == totals.asked_tokens
    assert value(tally, names.HITS) == totals.hit_tokens
    assert value(tally, names.NUM_PREEMPTIONS) == totals.preemptions
    assert value(tally, names.EVICTIONS) == totals.evictions
    assert value(tally, names.COPIES) == totals.copies == len(ops_in(records, Copy))
    assert value(tally, names.SWAPPED, "out") + value(tally, names.SWAPPED, "in") == totals.swapped_bytes
    assert value(tally, names.SWAPPED, "in") == sum(op.num_bytes for op in ops_in(records, SwapIn))
    assert value(tally, names.LOST_TOKENS) == sum(op.num_recompute_tokens for op in ops_in(records, Preempt))
    assert value(tally, names.RECOMPUTED_TOKENS) == count_recomputed(records)
    assert_observed(
        tally, names.ITERATION_TOKENS, [sum(len(e.token_ids) for e in r.batch) for r in records if r.kind == "step"]
    )
    assert tally.histograms[names.ITERATION_TOKENS.name].sum == totals.computed_tokens
    ended = Counter(s.finish_reason for s in sequences)
    assert {reason: value(tally, names.SUCCESS, reason) for reason in names.FINISHED} == {
        "stop": ended["stop"],
        "length": ended["length"],
        "abort": 1,
        "error": 0,
    }
    assert value(tally, names.FLOPS) == totals.flops > 0
    assert value(tally, names.READ_BYTES) + value(tally, names.WRITE_BYTES) == totals.bytes_moved
    assert value(tally, names.CACHED_BY_SOURCE, "device") == totals.hit_tokens
    assert ended["abort"] == 1


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_prompt_counts_once_at_its_first_token(name: str) -> None:
    """A prompt counts once even if it is recomputed or has several samples."""
    header, records = recorded(name)
    tally, _, _ = folded(header, records)
    begun = {op.seq_id for op in ops_in(records, Submit)}
    prompts = [s for s in figures_of(header, records)[1] if s.seq_id in begun and s.tokens]
    tokens, cached = sum(len(s.prompt_token_ids) for s in prompts), sum(s.num_cached_tokens for s in prompts)
    assert value(tally, names.PROMPT_TOKENS) == tokens
    assert value(tally, names.CACHED_TOKENS) == value(tally, names.BY_SOURCE, "local_cache_hit") == cached
    assert value(tally, names.BY_SOURCE, "local_compute") == tokens - cached
    assert value(tally, names.BY_SOURCE, "external_kv_transfer") == 0


@pytest.mark.parametrize("name", SCENARIOS)
def test_times_equal_the_runs_figures(name: str) -> None:
    header, records = recorded(name)
    tally, _, _ = folded(header, records)
    done = [s for s in figures_of(header, records)[1] if s.finish_reason in ("stop", "length")]
    assert_observed(tally, names.TPOT, [s.tpot for s in done if s.tpot is not None])
    assert_observed(tally, names.QUEUE, [s.queue for s in done if s.queue is not None])
    assert_observed(tally, names.DECODE, [(s.seconds or 0) - (s.ttft or 0) for s in done])
    assert_observed(tally, names.PREFILL, [(s.ttft or 0) - (s.queue or 0) for s in done])
    assert_observed(tally, names.INFERENCE, [(s.seconds or 0) - (s.queue or 0) for s in done])
    assert_observed(tally, names.REQUEST_GENERATION, [len(s.tokens) for s in done])
    assert_observed(tally, names.REQUEST_PROMPT, [len(s.prompt_token_ids) for s in done])
    assert_observed(tally, names.REQUEST_PREEMPTIONS, [s.num_preemptions for s in done])
    begun = {op.seq_id for op in ops_in(records, Submit)}
    computed = [len(s.prompt_token_ids) - s.num_cached_tokens if s.seq_id in begun else 0 for s in done]
    assert_observed(tally, names.REQUEST_COMPUTED, computed)


@pytest.mark.parametrize("name", SCENARIOS)
def test_token_latencies_are_gaps_between_consecutive_tokens(name: str) -> None:
    """The times of a fork continue from its parent's last token."""
    header, records = recorded(name)
    tally, _, _ = folded(header, records)
    arrived: dict[int, float] = {}
    last: dict[int, float] = {}
    ttft, gaps, e2e = [], [], []
    for record in records:
        at = record.timing.at
        for op in record.ops:
            match op:
                case Submit():
                    arrived[op.seq_id] = at
                case Sample() if op.seq_id not in last:
                    ttft.append(at - arrived[op.seq_id])
                    last[op.seq_id] = at
                case Sample():
                    gaps.append(at - last[op.seq_id])
                    last[op.seq_id] = at
                case Finish() if op.reason in ("stop", "length"):
                    e2e.append(at - arrived[op.seq_id])
                case Fork():
                    arrived[op.seq_id] = arrived[op.parent_seq_id]
                    last |= {op.seq_id: last[op.parent_seq_id]} if op.parent_seq_id in last else {}
    assert_observed(tally, names.TTFT, ttft)
    assert_observed(tally, names.ITL, gaps)
    assert_observed(tally, names.E2E, e2e)


@pytest.mark.parametrize("name", SCENARIOS)
def test_running_and_waiting_counts_equal_the_reducers_after_each_record(name: str) -> None:
    header, records = recorded(name)
    state, fold = initial_state(header), Fold(header, Tally(header.model.max_position))
    for record in records:
        apply(state, record)
        fold.read(record)
        assert (fold.num_running, fold.num_waiting) == (len(state.running), len(state.waiting)), record.index
        assert fold.memory == record.memory
    assert not fold._account.rows, "ended requests are dropped"


@pytest.mark.parametrize("name", SCENARIOS)
def test_block_lifetimes_equal_those_of_the_logged_evictions(name: str) -> None:
    """Given a clock of one second per step, lifetimes in seconds equal the logged steps."""
    header, records = recorded(name)
    clock = [retimed(record, float(record.step - (record.kind == "step"))) for record in records]
    tally, _, _ = folded(header, clock)
    evictions = ops_in(records, Evict)
    assert_observed(tally, names.LIFETIME, [op.lifetime_steps for op in evictions])
    assert_observed(tally, names.IDLE, [op.idle_steps for op in evictions])
    assert_observed(tally, names.REUSE_GAP, [gap for op in evictions for gap in op.reuse_gap_steps])


def test_the_scenarios_contain_every_counted_operation() -> None:
    """Otherwise the comparisons above would be vacuous."""
    kinds: Counter[str] = Counter()
    reuse = 0
    for name in SCENARIOS:
        records = recorded(name)[1]
        kinds.update(type(op).__name__ for record in records for op in record.ops)
        reuse += sum(len(op.reuse_gap_steps) for op in ops_in(records, Evict))
    assert all(kinds[kind] for kind in ("Preempt", "Evict", "Share", "Copy", "Fork", "SwapOut", "SwapIn", "Adjust"))
    assert reuse


@pytest.mark.parametrize("name", SCENARIOS)
def test_preemptions_and_misses_are_counted_by_logged_reason(name: str) -> None:
    header, records = recorded(name)
    tally, _, _ = folded(header, records)
    preempted = Counter((op.reason, op.mode) for op in ops_in(records, Preempt))
    counted = tally.counters[names.PREEMPTIONS.name]
    assert {labels: count for labels, count in counted.items() if count} == preempted
    first_looks: dict[int, list[Lookup]] = {}
    admitted: set[int] = set()
    for op in (op for record in records for op in record.ops):
        if isinstance(op, Lookup) and op.seq_id not in admitted:
            first_looks.setdefault(op.seq_id, []).append(op)
        elif isinstance(op, Admit | Fork):  # a fork runs from its beginning
            admitted.add(op.seq_id)
    missed = Counter(op.reason for looks in first_looks.values() for op in looks if op.reason is not None)
    assert {labels[0]: count for labels, count in tally.counters[names.MISSES.name].items() if count} == missed


def test_a_request_of_two_samples_is_one_request_with_two_sequences() -> None:
    """n and the longest output are observed once per request."""
    header, records = recorded("roomy")
    tally, _, ended = folded(header, records)
    submits = ops_in(records, Submit)
    assert sorted(request.request_id for request in ended) == sorted(op.request_id for op in submits)
    completed = [request for request in ended if set(request.reasons) != {"abort"}]
    assert_observed(tally, names.REQUEST_N, [request.n for request in completed])
    assert sorted(request.n for request in completed) == [1] * 6 + [2, 2]
    assert_observed(tally, names.MAX_GENERATION, [request.longest_output for request in completed])
    adjusted = next(request for request in ended if request.max_tokens == 11)
    assert adjusted.longest_output == 11
    for request in completed:
        assert request.scheduled is not None and request.first_token is not None and request.ended is not None
        assert request.arrival <= request.scheduled <= request.first_token <= request.ended


def test_time_in_a_clients_queue_counts_for_ttft_and_e2e_only() -> None:
    """The request waits 0.25 s in its client's queue and is submitted at 1.0. The step from 1.5 to 2.0 samples its only
    token.
    """
    header, records = recorded("roomy")
    submit = next(record for record in records if ops_of(record, Submit))
    op = structs.replace(ops_of(submit, Submit)[0], waited=0.25, max_tokens=1)
    step = next(record for record in records if ops_of(record, Sample))
    those = [o for o in step.ops if getattr(o, "seq_id", None) == op.seq_id and not isinstance(o, Lookup)]
    end = Finish(seq_id=op.seq_id, reason="length")
    submitted = structs.replace(submit, ops=[op], timing=Timing(at=1.0))
    timing = Timing(at=2.0, schedule=0.1, prepare=0.1, forward=0.2, sample=0.1)
    tally, _, _ = folded(header, [submitted, structs.replace(step, ops=[*those, end], timing=timing)])
    assert_observed(tally, names.WAITED, [0.25])
    assert_observed(tally, names.TTFT, [1.25])
    assert_observed(tally, names.E2E, [1.25])
    assert_observed(tally, names.QUEUE, [0.5])
    assert_observed(tally, names.PREFILL, [0.5])
    assert_observed(tally, names.DECODE, [0.0])
    assert_observed(tally, names.TPOT, [])  # undefined for one token


def test_a_step_that_fails_ends_its_requests_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests are running when the device fails. The engine aborts them."""
    with Engine(tiny_llama(), CONFIGS["roomy"]) as engine:
        for prompt in ([5, 6, 7], [8, 9]):
            engine.add_request(prompt, GREEDY)
        engine.step()
        monkeypatch.setattr(engine._runner, "execute", fails)
        with pytest.raises(RuntimeError):
            engine.step()
        log = log_of(engine)
        tally, fold, ended = folded(log.header, [log.record(i) for i in range(len(log))])
    assert (value(tally, names.SUCCESS, "error"), value(tally, names.SUCCESS, "abort")) == (2, 0)
    assert fold.num_running == 0 and len(ended) == 2
    assert_observed(tally, names.E2E, [])


def fails(*_: object) -> None:
    raise RuntimeError("the device is gone")


def test_token_buckets_are_one_two_five() -> None:
    assert tokens_up_to(100) == (1, 2, 5, 10, 20, 50, 100)
    assert tokens_up_to(64) == (1, 2, 5, 10, 20, 50)
    assert tokens_up_to(0) == ()
