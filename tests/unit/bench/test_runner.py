"""Small scenarios on the bundled model, from the first request to the record."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from msgspec.structs import replace
from transformers import AutoModelForCausalLM

from app.cli import main
from engine.bench import peers, runner
from engine.bench.compare import compare, lost_points
from engine.bench.drive import due_now
from engine.bench.environment import refusal
from engine.bench.errors import BenchError, Cancelled
from engine.bench.measurement import Measurement
from engine.bench.models import RANDOM_MODELS
from engine.bench.peers.base import Peer, PeerError
from engine.bench.record import RESULTS, read_record, write_record
from engine.bench.runner import Progress, Runner
from engine.bench.scenario import Cell, find_scenario, scenario_ids
from engine.bench.workload import WorkloadRequest
from engine.engine import Engine
from engine.setup import machine
from engine.trace.log import TraceReader
from engine.trace.records import Roofs
from tests.unit.bench.small import SMALL, TEXT, scenario

pytestmark = pytest.mark.slow


def test_a_scenario_runs_from_end_to_end(tmp_path: Path) -> None:
    """Two points run with two variants in two rounds. A request computes 5 + 6 + 7 tokens without a cache and 5 + 1 + 1
    with one.
    """
    reports: list[Progress] = []
    runner = Runner(scenario(), on_progress=reports.append, quiet_seconds=0, command="kvtheater bench run small")
    record = runner.run()
    assert record.complete and record.rounds == 2 and record.axis_values == [1, 2]
    counts = {(p.at, p.variant): p.figures["computed_tokens"].median for p in record.points}
    assert counts == {(1, "none"): 18, (1, "paged"): 7, (2, "none"): 36, (2, "paged"): 14}
    assert all(p.tokens_identical for p in record.points)
    ratio = record.points[1].figures["computed_tokens"].ratios["none"]
    assert ratio.median == pytest.approx(7 / 18, rel=1e-5)
    assert len(record.points[0].figures["seconds"].samples) == 2 and record.points[0].figures["seconds"].median > 0
    assert record.environment.machine.roofs is not None and record.environment.seed == 0
    assert [p.phase for p in reports] == ["waiting"] + ["warm-up"] * 4 + ["round"] * 8
    assert reports[-1].total == 12 and reports[-1].done == 11
    remaining = [p.seconds_left for p in reports]
    assert remaining[:2] == [None, None] and None not in remaining[2:]  # estimated from the first warm-up run on
    assert remaining[2] > remaining[-1] > 0  # type: ignore[operator]
    write_record(record, tmp_path / "small.json")
    assert read_record(tmp_path / "small.json") == record


def test_traces_of_warm_up_runs_are_written_next_to_the_record(tmp_path: Path) -> None:
    engines: list[tuple[str, bool]] = []
    record = Runner(
        scenario(rounds=1, axis={**SMALL["axis"], "values": [2]}),
        traces=tmp_path,
        on_engine=lambda cell, engine: engines.append((cell.variant, engine.log is not None)),
        quiet_seconds=0,
    ).run()
    for point in record.points:
        assert point.trace is not None
        with TraceReader(tmp_path / point.trace) as reader:
            assert reader.header.engine["strategy"] == point.variant
            assert sum(len(reader.record(i).outputs) for i in range(len(reader))) == 6
    assert engines[:2] == [("none", True), ("paged", True)], "warm-up runs have a log"
    assert sorted(engines[2:]) == [("none", False), ("paged", False)], "measured runs do not"


def test_every_engine_can_be_observed() -> None:
    lengths: list[int] = []

    def watch(_: Cell, engine: Engine) -> None:
        assert engine.log is not None
        engine.log.subscribe(lambda record: lengths.append(record.index))

    spec = scenario(rounds=1, axis={**SMALL["axis"], "values": [1]})
    Runner(spec, on_engine=watch, keep_logs=True, quiet_seconds=0).run()
    assert lengths == [0, 1, 2, 3] * 4, "two runs of two variants: a submission and three steps each"


def test_a_stopped_benchmark_keeps_finished_rounds() -> None:
    reports: list[Progress] = []
    record = Runner(
        scenario(rounds=50),
        on_progress=reports.append,
        cancelled=lambda: bool(reports) and reports[-1].round == 3,
        quiet_seconds=0,
    ).run()
    assert not record.complete and record.rounds == 2
    with pytest.raises(Cancelled):
        Runner(scenario(), cancelled=lambda: True, quiet_seconds=0).run()


class _FailingPeer(Peer):
    package: ClassVar[str] = "broken"
    module: ClassVar[str] = "json"

    def load(self, models: Any, model: str, dtype: str) -> None:
        pass

    def run(self, requests: Any, sampling: Any, config: Any) -> Measurement:
        raise PeerError("it has no greedy decoding")


class _Missing(_FailingPeer):
    module: ClassVar[str] = "no_such_module"


class _Unloadable(_FailingPeer):
    def load(self, models: Any, model: str, dtype: str) -> None:
        raise RuntimeError("the exporter\nneeds more")


def test_failing_peers_are_reported_and_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_Broken", "_Missing", "_Unloadable"):
        monkeypatch.setitem(peers.PEERS, name, "x:y")
    failing = {"_Broken": _FailingPeer, "_Missing": _Missing, "_Unloadable": _Unloadable}
    monkeypatch.setattr("engine.bench.runner.make_peer", lambda name: failing[name]())
    variants = [*SMALL["variants"], *({"id": name, "title": TEXT, "peer": name} for name in failing)]
    record = Runner(scenario(rounds=1, variants=variants, axis={**SMALL["axis"], "values": [1]}), quiet_seconds=0).run()
    failures = {point.variant: point.failed for point in record.points}
    assert failures == {
        "none": "",
        "paged": "",
        "_Broken": "it has no greedy decoding",
        "_Missing": "broken is not installed (pip install 'kvtheater[bench]')",
        "_Unloadable": "it cannot load the model: the exporter needs more",
    }
    assert all(bool(point.figures) != bool(point.failed) for point in record.points)


def test_transformers_generates_the_same_tokens_as_the_engine() -> None:
    """Lengths differ, so rows are padded and cut. Continuous batching runs on the same weights."""
    names = ("transformers-dynamic", "transformers-static", "transformers-no-cache", "transformers-continuous")
    variants = [{"id": "engine", "title": TEXT}, *({"id": name, "title": TEXT, "peer": name} for name in names)]
    record = Runner(
        scenario(
            rounds=1,
            variants=variants,
            baselines=["transformers-dynamic"],
            workload={"kind": "random", "num_requests": 3, "prompt_tokens": [3, 7], "output_tokens": [2, 6]},
            axis={**SMALL["axis"], "values": [3]},
            measure=["seconds", "ttft_p50", "tpot_p50", "waste"],
        ),
        quiet_seconds=0,
    ).run()
    assert {point.variant: (point.failed, point.tokens_identical) for point in record.points} == dict.fromkeys(
        ["engine", *names], ("", True)
    )
    assert all("ttft_p50" in point.figures for point in record.points)
    assert "waste" not in record.points[1].figures
    assert record.peers["transformers-static"].startswith("transformers 5")


def test_a_point_with_an_oversized_request_is_reported_and_others_continue() -> None:
    record = Runner(
        scenario(rounds=1, axis={**SMALL["axis"], "sets": ["workload.prompt_tokens"], "values": [5, 40]}),
        quiet_seconds=0,
    ).run()
    assert [bool(point.figures) for point in record.points] == [True, True, False, False]
    assert "over max_model_len 16" in record.points[2].failed
    with pytest.raises(BenchError, match="nothing can run here; the first: the prompt has 40 tokens"):
        Runner(
            scenario(axis={**SMALL["axis"], "sets": ["workload.prompt_tokens"], "values": [40]}), quiet_seconds=0
        ).run()


def test_parallel_samples_give_the_tokens_of_separate_requests() -> None:
    variants = [
        {"id": "none", "title": TEXT, "set": {"sampling.n": 1}},
        {"id": "paged", "title": TEXT, "set": {"workload.copies": 1}},
    ]
    axis = {"name": "n", "title": TEXT, "sets": ["sampling.n", "workload.copies"], "values": [3]}
    record = Runner(
        scenario(
            rounds=1,
            variants=variants,
            axis=axis,
            sampling={"temperature": 1.0},
            measure=["seconds", "saved_by_sharing"],
        ),
        quiet_seconds=0,
    ).run()
    assert [point.tokens_identical for point in record.points] == [True, True]
    assert record.points[1].figures["saved_by_sharing"].median > record.points[0].figures["saved_by_sharing"].median


def test_a_request_with_at_step_is_submitted_at_its_step() -> None:
    """Two prompts of 4 tokens decode 9 tokens. A prompt of 8 tokens is submitted after 3 steps and is computed in one
    step, because the budget is 12 tokens.
    """
    late = {
        "kind": "late_long", "num_requests": 2, "prompt_tokens": 4, "output_tokens": 9, "long_tokens": 8,
        "long_output_tokens": 2, "at_step": 3,
    }  # fmt: skip
    engine = {**SMALL["engine"], "max_num_batched_tokens": 12, "max_model_len": 16}
    batches: list[list[int]] = []

    def watch(_: object, engine: Engine) -> None:
        assert engine.log is not None
        engine.log.subscribe(lambda record: batches.append(sorted(len(entry.token_ids) for entry in record.batch)))

    runner = Runner(
        scenario(
            rounds=1, workload=late, engine=engine, axis={"name": "x", "title": TEXT, "cases": [{"value": "x"}]},
            variants=[{"id": "paged", "title": TEXT}], baselines=[],
        ),
        quiet_seconds=0,
        keep_logs=True,
        on_engine=watch,
    )  # fmt: skip
    runner.run()
    steps = [batch for batch in batches if batch]
    assert steps[:5] == [[4, 4], [1, 1], [1, 1], [1, 1, 8], [1, 1, 1]]


def test_an_idle_engine_takes_the_next_request_before_its_step() -> None:
    requests = [
        WorkloadRequest([300], 1, 0),
        WorkloadRequest([300], 1, 0, at_step=20),
        WorkloadRequest([300], 1, 0, at_step=30),
        WorkloadRequest([300], 1, 0, at=9.0),
    ]
    done: Callable[[int], float | None] = {0: 0.0}.get
    assert due_now(requests, [0, 1, 2, 3], done, 0.0, 0, True) == [0], "requests without a step come first"
    assert due_now(requests, [1, 2, 3], done, 0.0, 5, False) == []
    assert due_now(requests, [1, 2, 3], done, 0.0, 20, False) == [1]
    assert due_now(requests, [1, 2, 3], done, 0.0, 5, True) == [1], "an idle engine never reaches step 20"
    assert due_now(requests, [3], done, 0.0, 5, True) == []
    assert due_now(requests, [3], done, 9.0, 5, True) == [3]


def test_a_turn_waits_for_the_previous_response_its_pause_and_its_time() -> None:
    requests = [
        WorkloadRequest([300], 1, 0),
        WorkloadRequest([300], 1, 0, after=0, think=2.0),
        WorkloadRequest([300], 1, 0, after=0, at=9.0),
    ]
    assert due_now(requests, [1, 2], lambda index: None, 99.0, 0, False) == []
    assert due_now(requests, [1, 2], lambda index: 4.0, 5.9, 0, True) == []
    assert due_now(requests, [1, 2], lambda index: 4.0, 6.0, 0, True) == [1]
    assert due_now(requests, [1, 2], lambda index: 4.0, 9.0, 0, True) == [1, 2]


def test_a_turns_prompt_contains_the_previous_response() -> None:
    """Each of two turns has 4 + 3 tokens. The second prompt has 4 + 3 + 4 tokens, of which one block of 4 hits."""
    workload = {
        "kind": "multi_turn", "conversations": 1, "turns": 2, "system_tokens": 0, "user_tokens": 4, "output_tokens": 3,
    }  # fmt: skip
    record = Runner(
        scenario(
            rounds=1, workload=workload, measure=["hit_rate", "computed_tokens"],
            axis={"name": "block", "title": TEXT, "sets": ["engine.block_size"], "values": [4]},
        ),
        quiet_seconds=0,
    ).run()  # fmt: skip
    # computed: 4 + 2 in the first turn (its last token is not computed), then 11 − 4 and 2
    assert record.points[1].figures["computed_tokens"].median == 4 + 2 + 7 + 2
    assert record.points[1].figures["hit_rate"].median == pytest.approx(4 / (4 + 11), rel=1e-5)


def test_gpu_scenarios_are_refused_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenario is refused before a model is opened and before the wait for a quiet machine."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BenchError, match="small: this scenario needs a GPU that torch can use, and there is none here"):
        Runner(scenario(needs_gpu=True), quiet_seconds=60).run()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert refusal(scenario(needs_gpu=True)) is None


def test_the_bandwidth_is_measured_only_for_a_metric_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bandwidth of 1 byte per second gives a share above 1."""
    requests: list[str] = []

    def roofs(device: torch.device, dtype: torch.dtype) -> Roofs:
        requests.append(f"{device} {dtype}")
        return replace(machine.measure_roofs(device, dtype), bytes_per_second=1.0)

    monkeypatch.setattr(runner, "measure_roofs", roofs)
    Runner(scenario(), rounds=1, quiet_seconds=0).run()
    assert requests == []
    found = Runner(scenario(measure=["bandwidth_share"]), rounds=1, quiet_seconds=0).run()
    assert requests == ["cpu torch.float32"]
    assert all(point.figures["bandwidth_share"].samples[0] > 1 for point in found.points if point.variant == "paged")


def test_a_model_with_random_weights_has_the_named_shape() -> None:
    """Qwen/Qwen3-0.6B has 28 layers, 16 query and 8 KV heads of 128, hidden 1,024 and vocabulary 151,936."""
    config, dtype = RANDOM_MODELS["qwen3-0.6b-random"]
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    assert sum(p.numel() for p in model.parameters()) == 596_049_920 and model.dtype == torch.bfloat16


def test_counts_equal_those_of_the_shipped_record(tmp_path: Path) -> None:
    """Computed tokens, waste and sharing equal those of the record."""
    shipped = read_record(RESULTS / "guard.json")
    now = Runner(find_scenario("guard"), rounds=1, quiet_seconds=0).run()
    assert [d for d in compare(shipped, now, counts_only=True) if d.change != 0] == []
    assert lost_points(shipped, now) == []


def test_run_all_skips_scenarios_that_cannot_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Naming such a scenario explicitly is an error."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("engine.bench.scenario.scenario_ids", lambda: ["gpu-decode"])
    assert main(["bench", "run", "--all", "--out", str(tmp_path)]) == 0
    sentence = "this scenario needs a GPU that torch can use, and there is none here"
    assert capsys.readouterr().err.strip() == f"gpu-decode is skipped: {sentence}"
    assert main(["bench", "run", "gpu-decode", "--out", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_the_command_line_lists_runs_and_reports_scenarios(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "list"]) == 0
    listed = capsys.readouterr().out
    assert "guard " in listed
    titles = {find_scenario(name).title.en for name in scenario_ids()}
    assert len({line.index(title) for line in listed.splitlines() for title in titles if line.endswith(title)}) == 1
    options = ["--rounds", "1", "--only", "paged,none", "--out", str(tmp_path), "--wait-quiet", "0"]
    assert main(["bench", "run", "guard", *options]) == 0
    record = read_record(tmp_path / "guard.json")
    assert record.environment.command == "kvtheater bench run guard --rounds 1 --only paged,none"
    assert {point.variant for point in record.points} == {"none", "paged"}
    readme = tmp_path / "README.md"
    readme.write_text("# x\n<!-- measured -->\n<!-- /measured -->\n", encoding="utf-8")
    assert main(["bench", "report", str(tmp_path), "--into", str(readme)]) == 0
    assert "| what was measured | result | bar |" in readme.read_text(encoding="utf-8")
    capsys.readouterr()
    for arguments, sentence in [
        (["run"], "name the scenarios to run"),
        (["run", "nothing"], "there is no scenario nothing"),
        (["run", "guard", "--only", "swap"], "scenario guard has no variant swap"),
        (["run", "guard", "--rounds", "0"], "--rounds must be at least 1"),
        (["report", str(tmp_path / "none.json")], "cannot read"),
    ]:
        assert main(["bench", *arguments]) == 2
        assert sentence in capsys.readouterr().err
