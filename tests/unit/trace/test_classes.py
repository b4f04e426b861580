"""Figures of each class of requests agree with those of the log."""

from pathlib import Path

import numpy as np
import pytest

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.requests.request_spec import RequestSpec
from engine.trace.figures import RunReading, SequenceFigures
from engine.trace.log import TraceReader
from engine.trace.log_index.classes import BYS, By, ClassFigures, classes, length_class, pair_classes
from engine.trace.log_index.log_index import LogIndex
from engine.trace.log_index.make import make
from tests.load.large_log import Shape, write
from tests.unit.engine.runs import tiny_llama

GOLDEN = Path(__file__).parents[2] / "golden"
SHARED = list(range(20, 36))


@pytest.fixture(scope="module")
def run_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of three clients with shared prefixes, samples, an abort, priorities and preemptions."""
    path = tmp_path_factory.mktemp("classes") / "run.kvtrace"
    config = EngineConfig(block_size=4, num_blocks=24, max_model_len=64, num_logprobs=0)
    with Engine(tiny_llama(), config, log_path=path) as engine:
        for i in range(9):
            prompt = [*SHARED, 40 + i] if i % 3 == 0 else list(range(50, 53 + i))
            sampling = SamplingParams(max_tokens=6 + 2 * i, n=2 if i == 4 else 1, ignore_eos=True, temperature=1.0)
            client = (None, "alice", "bob")[i % 3]
            engine.add_requests([RequestSpec(prompt, sampling, f"r{i}", priority=i % 2, client=client)])
            engine.step()
        engine.abort("r8")
        while engine.has_unfinished():
            engine.step()
    return path


def figures_by(path: Path, by: By, tmp_path: Path) -> dict[str | None, ClassFigures]:
    with TraceReader(path) as log:
        make(log, tmp_path / "a.survey")
        return classes(LogIndex(tmp_path / "a.survey", log), log.header, by)


def read(path: Path) -> list[SequenceFigures]:
    with TraceReader(path) as log:
        reading = RunReading(log.header)
        for index in range(len(log)):
            reading.read(log.record(index), log.num_record_bytes(index))
    return [one for members in reading.members.values() for one in members]


@pytest.mark.parametrize("name", ["run_log", "instances", "outside", "samples-0.2.0", "watched", "pressed"])
def test_the_class_of_all_requests_has_the_figures_of_the_run(name: str, run_log: Path, tmp_path: Path) -> None:
    path = {"run_log": run_log, "pressed": tmp_path / "pressed.kvtrace"}.get(name, GOLDEN / f"{name}.kvtrace")
    if name == "pressed":
        write(path, Shape(blocks=700, requests=60, steps=600))
    [found] = figures_by(path, "all", tmp_path).values()
    everyone = read(path)
    assert found.sequences == len(everyone)
    assert found.preemptions == sum(one.num_preemptions for one in everyone)
    assert found.output_tokens == sum(len(one.tokens) for one in everyone)
    assert found.aborted == sum(one.finish_reason == "abort" for one in everyone)
    tpot = [one.tpot for one in everyone if one.tpot is not None]
    assert [found.tpot_p50, found.tpot_p99] == pytest.approx(np.percentile(tpot, [50, 99]), rel=1e-5, abs=1e-9)
    if found.sequences == found.requests:
        ttft = [one.ttft for one in everyone if one.ttft is not None]
        assert [found.ttft_p50, found.ttft_p99] == pytest.approx(np.percentile(ttft, [50, 99]), rel=1e-5, abs=1e-9)
        assert found.prompt_tokens == sum(len(one.prompt_token_ids) for one in everyone)


def test_requests_are_grouped_by_client_priority_prefix_and_length(run_log: Path, tmp_path: Path) -> None:
    clients = figures_by(run_log, "client", tmp_path)
    assert {name: one.requests for name, one in clients.items()} == {None: 3, "alice": 3, "bob": 3}
    assert clients["alice"].sequences == 4 and clients["bob"].aborted == 1
    priorities = figures_by(run_log, "priority", tmp_path)
    assert {name: one.requests for name, one in priorities.items()} == {"0": 5, "1": 4}
    prefixes = figures_by(run_log, "prefix", tmp_path)
    assert sorted(one.requests for one in prefixes.values()) == [3, 6] and prefixes["short"].requests == 6
    [shared] = [one for name, one in prefixes.items() if name != "short"]
    assert shared.cached_share is not None and shared.cached_share == pytest.approx(2 * 16 / (3 * 17))
    lengths = figures_by(run_log, "prompt", tmp_path)
    assert {name: one.requests for name, one in lengths.items()} == {"16-63": 3, "1-15": 6}
    for by in BYS:
        found = figures_by(run_log, by, tmp_path).values()
        assert sum(one.requests for one in found) == 9 and sum(one.sequences for one in found) == 10


def test_classes_of_lengths_include_their_bounds() -> None:
    assert [length_class(n) for n in (0, 1, 15, 16, 63, 64, 16_383, 16_384)] == [
        "0", "1-15", "1-15", "16-63", "16-63", "64-255", "4096-16383", "16384+",
    ]  # fmt: skip


def test_classes_of_two_runs_are_paired(run_log: Path, tmp_path: Path) -> None:
    a, b = figures_by(run_log, "prompt", tmp_path), figures_by(GOLDEN / "watched.kvtrace", "prompt", tmp_path)
    rows, more = pair_classes(a, b, "prompt")
    assert more == 0 and [one.name for one in rows] == sorted({*a, *b}, key=lambda name: int(str(name).split("-")[0]))
    for one in rows:
        assert one.a == a.get(one.name) and one.b == b.get(one.name) and (one.a or one.b)
    clients, _ = pair_classes(figures_by(run_log, "client", tmp_path), None, "client")
    assert {one.name for one in clients} == {None, "alice", "bob"} and all(one.b is None for one in clients)


def test_requests_with_hidden_prompts_have_no_prefix_class(tmp_path: Path) -> None:
    path = tmp_path / "private.kvtrace"
    with Engine(tiny_llama(), EngineConfig(block_size=4, num_blocks=64, private=True), log_path=path) as engine:
        engine.add_request(SHARED, SamplingParams(max_tokens=2))
        engine.step()
    assert list(figures_by(path, "prefix", tmp_path)) == [None]
    [unfinished] = figures_by(path, "all", tmp_path).values()
    assert unfinished.finished == unfinished.aborted == 0 and unfinished.tpot_p50 is None
