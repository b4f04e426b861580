"""A replay with the log's pool reproduces its decisions, and one with another pool shows the savings."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from app.cli import main
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.requests.request_spec import RequestSpec
from engine.simulate.replay import Replay
from engine.simulate.replay_inputs import ReplayError, read_decisions, read_inputs
from engine.simulate.what_if import Figures, is_same, what_if
from engine.trace.figures import RunReading
from engine.trace.log import TraceReader
from engine.trace.operations import Finish, Submit
from tests.load import large_log
from tests.load.large_log import Shape, write
from tests.unit.engine.runs import tiny_llama

GOLDEN = Path(__file__).parents[2] / "golden"
CONFIGS: dict[str, dict[str, Any]] = {
    "roomy": {},
    "preempting": {"num_blocks": 16, "max_model_len": 48},
    "swapping": {"num_blocks": 16, "max_model_len": 48, "preemption_mode": "swap"},
    "in chunks": {"max_num_batched_tokens": 16},
    "priorities": {"max_num_seqs": 3, "scheduling_policy": "priority", "num_blocks": 16, "max_model_len": 48},
    "first fit": {"strategy": "first_fit", "num_blocks": 32, "max_model_len": 64},
    "contiguous": {"strategy": "contiguous", "max_model_len": 64},
    "static": {"strategy": "static", "max_model_len": 64},
    "no cache": {"strategy": "none", "max_model_len": 64},
    "window": {"attention_window": 8, "attention_sinks": 4},
}


def _run(path: Path, settings: dict[str, Any], finish: bool = True) -> None:
    """Submit requests while others run: samples, scored prompts, an abort, a changed limit, salts and stops."""
    config = EngineConfig(**{"block_size": 4, "num_blocks": 96, "num_logprobs": 0, **settings})
    is_paged = config.strategy == "paged"
    draw = np.random.default_rng(5)
    shared = draw.integers(0, 90, 12).tolist()
    with Engine(tiny_llama(), config, log_path=path) as engine:
        for i in range(9):
            sampling = SamplingParams(max_tokens=8 + i, ignore_eos=i != 6, temperature=1.0)
            if is_paged and i in (2, 4):
                sampling = replace(sampling, n=2, best_of=3 if i == 2 else None)
            if i == 5:
                sampling = replace(sampling, prompt_logprobs=1)
            prompt = [*shared[: 12 * (i % 2)], *draw.integers(0, 90, int(draw.integers(3, 16))).tolist()]
            salt = "other" if i == 7 else None
            engine.add_requests([RequestSpec(prompt, sampling, f"r{i}", priority=i % 3, cache_salt=salt)])
            for _ in range(int(draw.integers(0, 5))):
                if engine.has_unfinished():
                    engine.step()
            if i == 3:
                engine.abort("r2") or engine.abort("r3")
            request = engine.request(f"r{i}")
            if i == 6 and request is not None:
                engine.adjust("r6", replace(request.sampling, max_tokens=12))
        while finish and engine.has_unfinished():
            engine.step()
        engine.add_request([5, 6, 7], SamplingParams(max_tokens=3))  # after an idle engine
        while finish and engine.has_unfinished():
            engine.step()


@pytest.mark.parametrize("finish", [True, False], ids=["to its end", "cut off"])
@pytest.mark.parametrize("settings", CONFIGS.values(), ids=CONFIGS.keys())
def test_a_replay_with_the_logs_pool_makes_the_same_decisions(
    settings: dict[str, Any], finish: bool, tmp_path: Path
) -> None:
    path = tmp_path / "run.kvtrace"
    _run(path, settings, finish)
    with TraceReader(path) as log:
        inputs = read_inputs(log, len(log), lambda record: None)
        replayed = list(Replay(log.header, inputs).records())
        assert len(replayed) == len(log)
        for logged, record in zip(read_decisions(log, len(log)), replayed, strict=True):
            assert is_same(logged, record), f"record {logged.index}: {logged} and not {record}"
        answer = what_if(log)
    assert answer.differs_in is None and answer.same == answer.log


def test_the_figures_of_a_log_are_those_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    _run(path, CONFIGS["preempting"])
    with TraceReader(path) as log:
        answer, reading = what_if(log), RunReading(log.header)
        for index in range(len(log)):
            reading.read(log.record(index), log.num_record_bytes(index))
    totals, found = reading.figures().totals, answer.log
    assert totals.preemptions > 0 and totals.evictions > 0
    for name in ("computed_tokens", "asked_tokens", "hit_tokens", "preemptions", "evictions"):
        assert getattr(found, name) == getattr(totals, name), name
    everyone = [one for members in reading.members.values() for one in members]
    waited = [one.ttft_steps for one in everyone if one.ttft_steps is not None and one.parts[0] == one.seq_id]
    assert found.first_tokens <= len(waited) and found.steps == totals.num_steps
    # tokens beyond one pass over each sequence are recomputed
    assert 0 < found.recomputed_tokens < totals.computed_tokens


def test_twice_the_pool_saves_recomputation_and_preemptions(tmp_path: Path) -> None:
    path = tmp_path / "pressed.kvtrace"
    write(path, Shape(blocks=700, requests=60, steps=600))
    with TraceReader(path) as log:
        answer = what_if(log)
        four = what_if(log, times=4)
    assert answer.differs_in is None and answer.same == answer.log
    assert answer.log.preemptions > 0 and answer.log.recomputed_tokens > 0 and answer.log.steps_without_room > 0
    assert answer.other.num_blocks == 2 * answer.log.num_blocks
    assert answer.other.recomputed_tokens < answer.log.recomputed_tokens
    assert answer.other.finished == answer.log.finished and answer.other.asked_tokens == answer.log.asked_tokens
    assert _pressure(four.other) <= _pressure(answer.other) < _pressure(answer.log)


def _pressure(found: Figures) -> tuple[int, int]:
    return found.preemptions, found.evictions


def test_a_smaller_pool_refuses_requests_that_never_fit(tmp_path: Path) -> None:
    path = tmp_path / "pressed.kvtrace"
    write(path, Shape(blocks=700, requests=60, steps=600))
    with TraceReader(path) as log:
        answer = what_if(log, times=0.25)
        with pytest.raises(ReplayError, match="cannot be replayed with such settings"):
            what_if(log, times=1e9)
    assert answer.other.refused > 0 and answer.other.finished + answer.other.refused == answer.log.finished


def test_a_smaller_pool_ignores_a_raised_limit_that_never_fits(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    with Engine(tiny_llama(), EngineConfig(block_size=4, num_blocks=8), log_path=path) as engine:
        request = engine.add_request([5, 9, 11, 3, 7, 8], SamplingParams(max_tokens=4, ignore_eos=True))
        engine.adjust(request.request_id, replace(request.sampling, max_tokens=20))
        while engine.has_unfinished():
            engine.step()
    with TraceReader(path) as log:
        answer = what_if(log, times=0.5)
    assert answer.differs_in is None and answer.other.finished == 1
    assert answer.log.steps == 20 and answer.other.steps == 4


def test_the_first_diverging_record_is_reported() -> None:
    """The replay of vLLM's scheduler has equal figures and one record in another order."""
    with TraceReader(GOLDEN / "watched.kvtrace") as log:
        answer = what_if(log)
    assert answer.same == answer.log and answer.log.steps_without_room > answer.other.steps_without_room
    assert answer.differs_in == 7


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("observed", "reports no requests"),
        ("instances", "several instances"),
        ("outside", "outside the pool"),
        ("cache", "the log has no requests"),
        ("forgetting", "forget_policy, .* depend on the model"),
        ("drafts", "speculative_config, .* depend on the model"),
    ],
)
def test_incomplete_logs_are_refused(name: str, error: str) -> None:
    with TraceReader(GOLDEN / f"{name}.kvtrace") as log, pytest.raises(ReplayError, match=error):
        what_if(log)


def test_a_log_with_beam_search_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "beams.kvtrace"
    with Engine(tiny_llama(), EngineConfig(block_size=4, num_blocks=64), log_path=path) as engine:
        engine.add_request([5, 6, 7], SamplingParams(max_tokens=3, use_beam_search=True, beam_width=2))
        while engine.has_unfinished():
            engine.step()
    with TraceReader(path) as log, pytest.raises(ReplayError, match="only the model decides"):
        what_if(log)


def test_the_command_prints_a_table_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pressed.kvtrace"
    write(path, Shape(blocks=700, requests=60, steps=600))
    with TraceReader(path) as log:
        expected = what_if(log)
    assert main(["trace", "what-if", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    [preempted] = [line.split() for line in lines if line.startswith("preemptions")]
    saved = expected.other.preemptions - expected.same.preemptions
    assert preempted[1:] == [str(expected.log.preemptions)] * 2 + [str(expected.other.preemptions), f"{saved:+}"]
    assert any("all" in line and "the same decisions" in line for line in lines)
    assert main(["trace", "what-if", str(path), "--times", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["other"]["num_blocks"] == 2800
    assert main(["trace", "what-if", str(path), "--times", "0"]) == 2
    assert main(["trace", "what-if", str(GOLDEN / "observed.kvtrace")]) == 2
    assert "reports no requests" in capsys.readouterr().err


def test_a_generated_log_has_the_given_number_of_requests(tmp_path: Path) -> None:
    large_log.main([str(tmp_path / "run.kvtrace"), "--requests", "60", "--blocks", "400"])
    with TraceReader(tmp_path / "run.kvtrace") as log:
        assert log.damage is None and 600 < len(log) < 6000  # 30 steps a request
        assert len(log.state_at(len(log) - 1).sequences) == 60


@pytest.mark.parametrize("num_blocks", [128, 40])
def test_a_turn_follows_its_previous_answer_after_the_same_number_of_steps(num_blocks: int, tmp_path: Path) -> None:
    """Each of three sessions has as many steps between an answer and the next question as in the log."""
    path, think, draw = tmp_path / "run.kvtrace", 4, np.random.default_rng(5)
    config = EngineConfig(block_size=4, num_blocks=128, num_logprobs=0)
    with Engine(tiny_llama(), config, log_path=path) as engine:
        prompts = {name: draw.integers(0, 90, 20).tolist() for name in "abc"}
        running = {name: engine.add_request(prompts[name], SamplingParams(max_tokens=14)) for name in prompts}
        engine.add_request(draw.integers(0, 90, 20).tolist(), SamplingParams(max_tokens=90))  # the engine is never idle
        since, turn = dict.fromkeys(prompts, 0), dict.fromkeys(prompts, 1)
        while engine.has_unfinished():
            engine.step()
            for name, request in list(running.items()):
                since[name] += request.finish_reason is not None
                if since[name] == think and turn[name] < 3:
                    prompts[name] = [*prompts[name], *request.output_token_ids, *draw.integers(0, 90, 6).tolist()]
                    running[name] = engine.add_request(prompts[name], SamplingParams(max_tokens=14))
                    since[name], turn[name] = 0, turn[name] + 1
    with TraceReader(path) as log:
        inputs = read_inputs(log, len(log), lambda record: None)
        requests = [one for arrival in inputs.arrivals for one in arrival.requests]
        records = list(Replay(log.header, inputs, num_blocks).records())
    arrived, ended, by_seq = dict[str, int](), dict[str, int](), dict[int, str]()
    for record in records:
        for op in record.ops:
            if isinstance(op, Submit):
                arrived[op.request_id], by_seq[op.seq_id] = record.step, op.request_id
            elif isinstance(op, Finish):
                ended[by_seq[op.seq_id]] = record.step
    turns = [(one, one.after) for one in requests if one.after is not None]
    gaps = [(arrived[a.request_id] - ended[b.request_id], a.submitted - b.ended) for a, b in turns]
    assert len(gaps) == 6 and all(replayed == logged for replayed, logged in gaps)
    delay = sum(ended[a.request_id] - a.ended for a, _ in turns)
    assert delay == 0 if num_blocks == 128 else delay > 0
