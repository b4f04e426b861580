"""Workloads on several instances: tokens equal those of one engine, and figures per instance."""

import dataclasses

import pytest
from msgspec.structs import replace

from engine.bench.drive import run_engine
from engine.bench.drive_instances import run_instances
from engine.bench.errors import BenchError
from engine.bench.formulas import Context
from engine.bench.instances import InstancesWork, InstanceWork
from engine.bench.measurement import Measurement
from engine.bench.metrics import METRICS
from engine.bench.runner import Runner
from engine.bench.scenario import cell_of
from engine.bench.workload import LateLong, MultiTurn, Random, Workload, WorkloadRequest, requests_of
from engine.cluster.build import local_cluster
from engine.cluster.cluster import Cluster
from engine.config import EngineConfig, SamplingParams
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module
from engine.trace.goodput import SLO
from engine.trace.operations import Arrive, Lost, Op, TransferFailed
from engine.trace.records import Memory, RecordKind, StepRecord, Timing
from tests.tiny_models import tiny_model
from tests.unit.bench.small import SMALL, TEXT, scenario

SAMPLING = SamplingParams(ignore_eos=True)
CONFIG = EngineConfig(block_size=4, num_blocks=80, max_model_len=160, enforce_eager=True, num_logprobs=0)
SHAPES = {"single": {"mixed": 1}, "two": {"mixed": 2}, "apart": {"prefill": 1, "decode": 1}}
WORKLOADS: dict[str, Workload] = {
    "at once": Random(num_requests=6, prompt_tokens=(3, 30), output_tokens=(1, 8)),
    "by and by": Random(num_requests=5, prompt_tokens=(3, 30), output_tokens=(2, 5), rate=200.0),
    "in turns": MultiTurn(conversations=3, turns=3, system_tokens=9, user_tokens=(3, 9), output_tokens=(2, 6)),
    "a late one": LateLong(
        num_requests=3, prompt_tokens=(3, 6), output_tokens=12, long_tokens=60, long_output_tokens=2, at_step=5
    ),
}


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return from_module(tiny_model("llama", vocab_size=600, max_position_embeddings=256), None, "tiny")


def work_of(found: Measurement) -> InstancesWork:
    assert found.instances is not None
    return found.instances


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", WORKLOADS)
def test_instances_give_the_tokens_of_one_engine(model: LoadedModel, shape: str, kind: str) -> None:
    requests = requests_of(WORKLOADS[kind], 600, 0)
    single = run_engine(model, CONFIG, requests, SAMPLING)
    cluster = local_cluster(model, replace(CONFIG, **SHAPES[shape]))
    try:
        found = run_instances(cluster, requests, SAMPLING)
    finally:
        cluster.close()
    assert found.outputs == single.outputs
    assert [len(r.tokens) for r in found.requests] == [len(output) for [output] in single.outputs]
    assert [r.late for r in found.requests] == [request.late for request in requests]
    assert all(r.arrived <= r.tokens[0] and sorted(r.tokens) == r.tokens for r in found.requests)
    assert found.seconds == max(r.tokens[-1] for r in found.requests)
    assert [one.role for one in work_of(found).each] == cluster.config.roles
    assert bool(work_of(found).moved_bytes) == (shape == "apart")
    assert 0 < sum(one.busy_seconds for one in work_of(found).each) <= found.seconds + 0.1


def test_latencies_of_timed_requests_start_at_their_arrival(model: LoadedModel) -> None:
    requests = requests_of(WORKLOADS["by and by"], 600, 0)
    cluster = local_cluster(model, replace(CONFIG, **SHAPES["apart"]))
    try:
        found = run_instances(cluster, requests, SAMPLING)
    finally:
        cluster.close()
    assert [r.arrived for r in found.requests] == [request.at for request in requests]
    assert all(r.tokens[0] >= request.at for r, request in zip(found.requests, requests, strict=True))


def test_a_rejected_request_counts_against_slo_attainment(model: LoadedModel) -> None:
    """Requests that arrive while both instances are busy are rejected under an unattainable objective."""
    requests = [
        dataclasses.replace(request, at=0.0, output_tokens=100) for request in requests_of(WORKLOADS["at once"], 600, 0)
    ]
    cluster = local_cluster(model, replace(CONFIG, mixed=2, ttft_slo=1e-6))
    try:
        run_instances(cluster, requests[:2], SAMPLING)  # measures both instances
        found = run_instances(cluster, requests, SAMPLING)
    finally:
        cluster.close()
    assert [len(request.tokens) for request in found.requests] == [100, 100, 0, 0, 0, 0]
    assert METRICS["rejected"].of(found, Context()) == 4
    assert METRICS["slo_attainment"].of(found, Context(SLO(ttft=60.0, tpot=60.0))) == 2 / 6


def test_a_run_hits_no_blocks_of_an_earlier_run(model: LoadedModel) -> None:
    """The second and third runs of a cluster have as many hits as the first."""
    requests = requests_of(WORKLOADS["in turns"], 600, 0)
    cluster = local_cluster(model, replace(CONFIG, **SHAPES["two"]))
    try:
        works = [run_instances(cluster, requests, SAMPLING).work for _ in range(3)]
    finally:
        cluster.close()
    hits = [work.hit_tokens for work in works if work is not None]
    assert len(hits) == 3 and hits[0] > 0 and len(set(hits)) == 1


def record(instance: int, kind: RecordKind, *ops: Op, forward: float = 0.0, sample: float = 0.0) -> StepRecord:
    memory = Memory.counted(
        num_blocks=1, block_size=1, blocks_held=0, blocks_cached=0, tokens_held=0, tokens_logical=0,
        kv_bytes_per_token=1,
    )  # fmt: skip
    timing = Timing(at=0.0, forward=forward, sample=sample)
    return StepRecord(index=0, instance=instance, kind=kind, step=0, ops=list(ops), timing=timing, memory=memory)


def arrive(num_bytes: int, began: float, ended: float) -> Arrive:
    return Arrive(
        seq_id=0, transfer="t", queue_position=0, num_tokens=1, num_bytes=num_bytes, link="local", began=began,
        ended=ended,
    )  # fmt: skip


def test_work_of_instances_is_summed() -> None:
    work = InstancesWork([InstanceWork("prefill"), InstanceWork("decode")])
    work.add(record(0, "step", forward=0.5, sample=0.25))
    work.add(record(1, "step", forward=0.25))
    work.add(record(1, "step", forward=0.25))
    work.add(record(1, "transfer", arrive(100, 1.0, 1.5), arrive(20, 2.0, 2.25), forward=9.0))
    work.add(record(1, "transfer", TransferFailed(seq_id=0, transfer="t", queue_position=0, reason="stale")))
    found = Measurement(2.0, [], [], None, work)

    def figure(name: str) -> float | None:
        return METRICS[name].of(found, Context())

    assert figure("prefill_idle_share") == 1 - 0.75 / 2
    assert figure("decode_idle_share") == 1 - 0.5 / 2
    assert figure("idle_share") == 1 - (0.75 + 0.5) / 4
    assert (figure("transferred_bytes"), figure("failed_transfers")) == (120, 1)
    assert figure("transfer_p50") == 0.375 and figure("transfer_p90") == pytest.approx(0.475)
    mixed = Measurement(2.0, [], [], None, InstancesWork([InstanceWork("mixed", 0.5)]))
    names = ("prefill_idle_share", "decode_idle_share", "transferred_bytes", "transfer_p50", "failed_transfers")
    assert [METRICS[name].of(mixed, Context()) for name in names] == [None] * 5
    assert METRICS["idle_share"].of(mixed, Context()) == 0.75
    one_engine = Measurement(2.0, [], [])
    assert METRICS["idle_share"].of(one_engine, Context()) is None
    with pytest.raises(BenchError, match="an instance ended during the measurement: it was killed"):
        work.add(record(0, "lost", Lost(detail="it was killed")))


def _wrong(variant: dict[str, object], **changes: object) -> str:
    spec = scenario(variants=[{"id": "v", "title": TEXT, **variant}], baselines=[], **changes)
    with pytest.raises(BenchError) as raised:
        cell_of(spec, 0, spec.variants[0])
    return str(raised.value)


def test_settings_that_conflict_with_instances_are_refused() -> None:
    two: dict[str, object] = {"engine.mixed": 2}
    for setting, value, error in (
        ("tiers.cpu", "1MiB", "tiers"),
        ("observer", "log", "an observer"),
        ("engine.enforce_eager", False, "compiled code"),
        ("sampling", {"n": 2, "temperature": 1.0}, "several outputs"),
    ):
        assert f"{error}" in _wrong({"set": {**two, setting: value}})
    assert "a peer requires a single engine" in _wrong({"set": two, "peer": "transformers-dynamic"})


@pytest.mark.slow
def test_each_layout_is_started_once_and_closed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layouts run two points in two rounds, with the tokens of one engine."""
    events: list[str] = []

    def start(model: LoadedModel, config: EngineConfig) -> Cluster:
        cluster = local_cluster(model, config)
        ended = cluster.close

        def close() -> None:
            ended()
            events.append("closed")

        monkeypatch.setattr(cluster, "close", close)
        events.append("+".join(config.roles))
        return cluster

    monkeypatch.setattr("engine.bench.clusters.local_cluster", start)
    spec = scenario(
        measure=["seconds", "idle_share", "transferred_bytes"],
        model="tiny-llama",
        variants=[
            {"id": "none", "title": TEXT},
            {"id": "two", "title": TEXT, "set": {"engine.mixed": 2}},
            {"id": "apart", "title": TEXT, "set": {"engine.prefill": 1, "engine.decode": 1}},
        ],
        axis={**SMALL["axis"], "values": [1, 3]},
    )
    found = Runner(spec, quiet_seconds=0).run()
    assert sorted(events[:2]) == ["mixed+mixed", "prefill+decode"] and events[2:] == ["closed", "closed"]
    assert all(point.tokens_identical and not point.failed for point in found.points)
    for at in (1, 3):
        figures = {point.variant: point.figures for point in found.points if point.at == at}
        assert figures["apart"]["transferred_bytes"].median > 0
        assert "transferred_bytes" not in figures["two"] and "idle_share" not in figures["none"]
        assert 0 <= figures["two"]["idle_share"].median < 1


def test_a_turn_is_submitted_after_the_previous_response(model: LoadedModel) -> None:
    """The pause begins with the end of the previous response, on one engine and on several."""
    requests = [
        WorkloadRequest([300, 301], 3, 1),
        WorkloadRequest([302], 2, 2, after=0, think=0.05),
        WorkloadRequest([303] * 9, 2, 3, after=0, is_whole=True),
        WorkloadRequest([304], 2, 4, after=1),
    ]
    cluster = local_cluster(model, replace(CONFIG, **SHAPES["apart"]))
    try:
        for found in (run_engine(model, CONFIG, requests, SAMPLING), run_instances(cluster, requests, SAMPLING)):
            times = found.requests
            assert [len(one.tokens) for one in times] == [3, 2, 2, 2]
            assert times[1].arrived >= times[0].tokens[-1] + 0.05
            assert times[2].arrived >= times[0].tokens[-1] and times[3].arrived >= times[1].tokens[-1]
    finally:
        cluster.close()
