"""Metrics, with their arithmetic written out."""

import json
from pathlib import Path

import pytest

from engine.bench import formulas
from engine.bench.formulas import Context
from engine.bench.measurement import EngineWork, Measurement, RequestTimes, Timeline
from engine.bench.metrics import METRICS
from engine.bench.tiers import Estimates
from engine.trace.goodput import SLO
from engine.trace.operations import (
    Admit,
    Defer,
    ExternalVerdict,
    Fork,
    Load,
    Lookup,
    LookupExternal,
    Medium,
    Preempt,
    Store,
    Submit,
    SwapIn,
)
from engine.trace.records import BatchEntry, Memory, Output, Phase, PromptLogprob, StepRecord, Timing, Work


def value(name: str, measurement: Measurement, **context: object) -> float | None:
    return METRICS[name].of(measurement, Context(**context))  # type: ignore[arg-type]


# arrives at 1.0, tokens at 1.5, 1.6, 1.8; arrives at 2.0, tokens at 2.1, 2.5
TWO = Measurement(
    seconds=4.0,
    requests=[RequestTimes(1.0, [1.5, 1.6, 1.8]), RequestTimes(2.0, [2.1, 2.5])],
    outputs=[[[7, 8, 9]], [[7, 8]]],
)


def test_latency_percentiles_are_computed_over_requests() -> None:
    """TTFT is 0.5 and 0.1, gaps are 0.1, 0.2 and 0.4, TPOT is 0.15 and 0.4."""
    assert value("ttft_p50", TWO) == pytest.approx(0.3)
    assert value("ttft_p90", TWO) == pytest.approx(0.1 + 0.9 * 0.4)
    assert value("itl_p50", TWO) == pytest.approx(0.2)
    assert value("itl_max", TWO) == pytest.approx(0.4)
    assert value("tpot_p50", TWO) == pytest.approx((0.15 + 0.4) / 2)
    assert value("tpot_p99", TWO) == pytest.approx(0.15 + 0.99 * 0.25)


def test_throughput_counts_tokens_and_requests() -> None:
    """The run has 5 tokens and 2 requests in 4 seconds."""
    assert value("output_tokens_per_second", TWO) == pytest.approx(1.25)
    assert value("requests_per_second", TWO) == pytest.approx(0.5)
    assert value("seconds", TWO) == 4.0


def test_goodput_counts_requests_that_met_both_objectives() -> None:
    """A single request meets TTFT ≤ 0.5 s and TPOT ≤ 0.2 s, so goodput is 1 in 4 s. No request meets TTFT ≤ 0.2 s."""
    slo = SLO(ttft=0.5, tpot=0.2)
    assert value("goodput", TWO, slo=slo) == pytest.approx(0.25) and value("slo_attainment", TWO, slo=slo) == 0.5
    assert value("goodput", TWO, slo=SLO(ttft=0.2, tpot=0.2)) == 0
    assert value("goodput", TWO) is None, "no objectives, no goodput"


def test_the_late_request_is_excluded_from_the_other_latencies() -> None:
    late = Measurement(4.0, [*TWO.requests, RequestTimes(2.0, [3.5, 3.9], late=True)], TWO.outputs)
    assert value("late_ttft", late) == pytest.approx(1.5) and value("late_ttft", TWO) is None
    assert value("itl_max", late) == value("itl_max", TWO) and value("ttft_p50", late) == value("ttft_p50", TWO)


def test_metrics_of_the_engine_are_absent_for_a_peer() -> None:
    engine_only = [name for name in METRICS if value(name, TWO, slo=SLO(ttft=1, tpot=1)) is None]
    assert {"waste", "flops", "hit_rate", "peak_blocks", "decode_tokens_per_second"} <= set(engine_only)
    assert not {"seconds", "ttft_p50", "goodput"} & set(engine_only)


def entry(phase: Phase, num_tokens: int, seq_id: int = 0) -> BatchEntry:
    return BatchEntry(
        seq_id=seq_id, phase=phase, start=0, token_ids=[1] * num_tokens, context_len=num_tokens, samples=True
    )


def step(batch: list[BatchEntry], seconds: float = 0.0, **fields: object) -> StepRecord:
    memory = Memory.counted(
        num_blocks=10,
        block_size=4,
        blocks_held=3,
        blocks_cached=0,
        tokens_held=9,
        tokens_logical=12,
        kv_bytes_per_token=2,
    )
    timing = Timing(at=0, schedule=seconds / 4, prepare=seconds / 4, forward=seconds / 4, sample=seconds / 4)
    values = {"index": 0, "kind": "step", "step": 1, "timing": timing, "memory": memory, **fields}
    return StepRecord(batch=batch, **values)  # type: ignore[arg-type]


def sum_of(timing: Timing) -> float:
    return timing.schedule + timing.prepare + timing.forward + timing.sample


def measurement_of(*records: StepRecord) -> Measurement:
    work = EngineWork(kv_bytes_per_token=2)
    for record in records:
        work.add(record, 1.25 * sum_of(record.timing))
    return Measurement(1.0, [], [], work)


def test_mixed_steps_count_neither_as_prefill_nor_as_decode() -> None:
    """Prefill takes 2 s for 10 tokens. Decode takes 0.5 s and 1.5 s for 2 tokens each."""
    decode = [entry("decode", 1), entry("decode", 1, 1)]
    run = measurement_of(
        step([entry("prefill", 10)], 2.0),
        step(decode, 0.5),
        step(decode, 1.5),
        step([entry("prefill", 5), entry("decode", 1, 1)], 9.0),
    )
    assert value("prefill_tokens_per_second", run) == pytest.approx(5.0)
    assert value("decode_tokens_per_second", run) == pytest.approx(4 / 2.0)
    assert value("decode_step_seconds", run) == pytest.approx(1.0)
    assert (value("computed_tokens", run), value("steps", run), value("peak_running", run)) == (20, 4, 2)


def test_bandwidth_share_is_the_minimum_time_over_the_measured_time() -> None:
    """Two decode steps move 100 and 60 bytes in 2 and 3 s. The minimum at 64 bytes per second is 2.5 s."""

    def transfer_work(num_bytes: int) -> Work:
        return Work(num_tokens=1, flops=1, weight_bytes=num_bytes - 30, kv_read_bytes=20, kv_write_bytes=10)

    decode = [entry("decode", 1)]
    run = measurement_of(
        step(decode, 2.0, work=transfer_work(100)),
        step(decode, 3.0, work=transfer_work(60)),
        step([entry("prefill", 9)], 1.0, work=transfer_work(999)),
    )
    share = METRICS["bandwidth_share"].of
    assert share(run, Context(bytes_per_second=64.0)) == pytest.approx(2.5 / 5)
    assert share(run, Context()) is None


def test_decode_step_times_are_medians_over_pure_decode_steps() -> None:
    """The median step takes 8 ms in four equal parts and 2 ms in the caller, so the forward pass is 2 of 10 ms."""
    decode = [entry("decode", 1)]
    run = measurement_of(
        step(decode, 0.008), step(decode, 0.004), step(decode, 0.04), step([entry("prefill", 10)], 9.0)
    )
    assert value("own_share", run) == pytest.approx(0.8)
    for part in ("schedule", "prepare", "forward", "sample", "record"):
        assert value(f"decode_{part}_seconds", run) == pytest.approx(0.002)
    assert value("own_share", measurement_of(step([entry("prefill", 10)]))) is None


def test_waste_and_sharing_are_shares_over_all_steps() -> None:
    """The 3 blocks of 4 slots hold 9 tokens, so 3 of 12 slots are wasted. 12 logical tokens share 9 slots."""
    run = measurement_of(step([entry("prefill", 9)]), step([entry("decode", 1)]))
    assert value("waste", run) == pytest.approx(3 / 12) and value("saved_by_sharing", run) == pytest.approx(3 / 12)
    assert (value("peak_blocks", run), value("peak_kv_bytes", run)) == (3, 3 * 4 * 2)
    assert value("kv_bytes_per_token", run) == 2


def test_work_is_summed_over_all_steps() -> None:
    work = Work(num_tokens=1, flops=100, weight_bytes=10, kv_read_bytes=5, kv_write_bytes=1)
    run = measurement_of(step([entry("decode", 1)], work=work), step([entry("decode", 1)], work=work))
    assert (value("flops", run), value("kv_read_bytes", run), value("bytes_moved", run)) == (200, 10, 32)


def lookup(seq_id: int, hit: int) -> Lookup:
    return Lookup(seq_id=seq_id, verdict="hit" if hit else "miss", num_tokens=20, num_hit_tokens=hit, block_ids=[])


def test_the_hit_rate_counts_first_admissions_only() -> None:
    """The two prompts have 20 tokens each, and 8 hit. Hits of a preempted sequence on its own content do not count."""
    first = [lookup(0, 0), Admit(seq_id=0, num_cached_tokens=0, resumed=False)]
    second = [lookup(1, 8), Admit(seq_id=1, num_cached_tokens=8, resumed=False)]
    again = [lookup(1, 16), Admit(seq_id=1, num_cached_tokens=16, resumed=True)]
    run = measurement_of(step([], ops=first), step([], ops=second), step([], ops=again))
    assert value("hit_rate", run) == pytest.approx(8 / 40)


def test_preemptions_and_the_first_refusal_for_blocks_are_counted() -> None:
    """Waiting for `max_num_seqs` is no refusal. The second step waits for blocks, and the third preempts 30 tokens."""
    for_running_slot = Defer(seq_id=3, reason="max_num_seqs", needed=1, available=0)
    for_blocks = Defer(seq_id=3, reason="no_free_blocks", needed=2, available=1)
    preempt = Preempt(
        seq_id=2,
        queue_position=0,
        mode="swap",
        for_seq_id=1,
        num_computed_tokens=30,
        num_recompute_tokens=30,
        num_bytes=64,
    )
    swap_in = SwapIn(seq_id=2, logical=0, block_id=0, cpu_block_id=0, num_bytes=64)
    run = measurement_of(
        step([], ops=[for_running_slot]), step([], ops=[for_blocks]), step([], ops=[preempt]), step([], ops=[swap_in])
    )
    assert value("refused_at_step", run) == 2
    assert (value("preemptions", run), value("recomputed_tokens", run), value("swapped_bytes", run)) == (1, 30, 128)
    assert value("refused_at_step", measurement_of(step([], ops=[for_running_slot]))) is None


def prompt_logprob(logprob: float) -> PromptLogprob:
    return PromptLogprob(seq_id=0, position=1, token_id=1, logprob=logprob, top=[])


def test_errors_are_computed_against_the_reference() -> None:
    """Log probabilities of −1.5 and −2.5 have a loss of 2.0 and differ from −1 and −2 by 0.5. 3 of 5 tokens agree."""
    exact = measurement_of(step([], prompt_logprobs=[prompt_logprob(-1), prompt_logprob(-2)]))
    rough = measurement_of(step([], prompt_logprobs=[prompt_logprob(-1.5), prompt_logprob(-2.5)]))
    assert value("nll", rough) == pytest.approx(2.0)
    assert value("logprob_error", rough, reference=exact) == pytest.approx(0.5)
    exact.outputs, rough.outputs = [[[1, 2, 3]], [[4, 5]]], [[[1, 9, 3]], [[4, 5]]]
    assert value("tokens_equal", rough, reference=exact) == pytest.approx(3 / 5)


def output(seq_id: int) -> Output:
    return Output(seq_id=seq_id, token_id=1, token_bytes=b"", text="", logprob=0.0, top=[])


def test_timelines_attribute_tokens_to_sequences() -> None:
    """Sequences 4 and 5 belong to request a. A step in which both get a token counts once for the request."""
    timeline = Timeline()
    submit = Submit(
        seq_id=4, queue_position=0, request_id="a", prompt_token_ids=[1], prompt_token_bytes=[b""], max_tokens=3
    )
    timeline.add(step([], ops=[submit]), at=1.0)
    timeline.submitted("b", 6, arrived=0.25)
    timeline.add(
        step([], ops=[Fork(parent_seq_id=4, seq_id=5, request_id="a")], outputs=[output(4), output(5)]), at=2.0
    )
    timeline.add(step([], outputs=[output(5), output(6)]), at=3.0)
    assert timeline.requests["a"] == RequestTimes(1.0, [2.0, 3.0])
    assert timeline.requests["b"].ttft == pytest.approx(2.75)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_metric_has_a_title_and_every_title_a_metric(language: str) -> None:
    titles = json.loads((Path(formulas.__file__).parent / "words" / f"{language}.json").read_text(encoding="utf-8"))
    assert list(titles) == list(METRICS) and all(titles.values())


def test_external_hits_loads_and_stores_are_counted() -> None:
    """Two of ten queried blocks of 4 tokens come from CPU and one from disk. Loads after a preemption are no
    queries. The second prompt's external content is computed.
    """

    def looked_up(seq_id: int, verdict: ExternalVerdict, media: list[Medium]) -> LookupExternal:
        found = 4 * len(media)
        return LookupExternal(seq_id=seq_id, verdict=verdict, num_tokens=16, num_found_tokens=found, media=media)

    def lookup(seq_id: int) -> Lookup:
        return Lookup(seq_id=seq_id, verdict="miss", num_tokens=20, num_hit_tokens=0, num_shared_tokens=0, block_ids=[])

    load = Load(seq_id=0, logical=0, block_id=0, block_hash=b"x", medium="cpu", num_bytes=100)
    store = Store(block_id=0, block_hash=b"y", medium="cpu", num_bytes=30)
    run = measurement_of(
        step([], ops=[lookup(0), looked_up(0, "load", ["cpu", "cpu", "disk"]), load, store]),
        step([], ops=[lookup(1), looked_up(1, "compute", ["disk"]), store]),
        step([], ops=[Admit(seq_id=0, num_cached_tokens=0, resumed=True), looked_up(0, "load", ["cpu"]), load]),
    )
    assert value("cpu_hit_rate", run) == pytest.approx(8 / 40) and value("disk_hit_rate", run) == pytest.approx(4 / 40)
    assert (value("loaded_bytes", run), value("stored_bytes", run), value("chose_compute", run)) == (200, 60, 1)


def test_load_times_are_divided_by_their_estimates() -> None:
    """Loads take 1, 2 and 6 times the estimate. The median is 2, and the 90th percentile is 2 + 0.8 · 4."""
    run = measurement_of()
    assert value("load_over_estimate_p50", run) is None, "the run has no tiers"
    assert run.work is not None
    run.work.estimates = Estimates(loads=[1.0, 6.0, 2.0], prefills=[])
    assert value("load_over_estimate_p50", run) == 2 and value("load_over_estimate_p90", run) == pytest.approx(5.2)
    assert value("prefill_over_estimate_p50", run) is None


def test_roofline_shares_are_minimum_times_over_measured_ones() -> None:
    """Given 100 FLOP/s and 10 B/s, decode steps of 30 B need at least 3 s for 50 FLOP and 5 s for 500. They take 4 and
    8 s. The prefill of 900 FLOP needs at least 9 s and takes 12.
    """

    def of(flops: int) -> Work:
        return Work(num_tokens=1, flops=flops, weight_bytes=15, kv_read_bytes=10, kv_write_bytes=5)

    decode = [entry("decode", 1)]
    run = measurement_of(
        step(decode, 4.0, work=of(50)),
        step(decode, 8.0, work=of(500)),
        step([entry("prefill", 9)], 12.0, work=of(900)),
        step([entry("prefill", 5), entry("decode", 1, 1)], 1.0, work=of(9000)),
    )
    roofs = Context(bytes_per_second=10.0, flops_per_second=100.0)
    found = {name: metric.of(run, roofs) for name, metric in METRICS.items() if "roofline" in name}
    assert found == {
        "decode_roofline_seconds": 4.0,
        "decode_roofline_share": pytest.approx(4 / 6),
        "prefill_roofline_seconds": 9.0,
        "prefill_roofline_share": pytest.approx(9 / 12),
    }
    assert METRICS["prefill_step_seconds"].of(run, roofs) == 12.0
    assert METRICS["decode_roofline_share"].of(run, Context(bytes_per_second=10.0)) is None
    assert METRICS["decode_roofline_share"].of(measurement_of(), roofs) is None
