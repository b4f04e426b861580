"""`kvtheater beside` without vLLM: input files, refusals, and the comparison of two logs."""

import sys
from pathlib import Path

import pytest

from app.cli.beside import equal_steps
from app.ground.paths import static_dir
from engine.config import EngineConfig
from engine.lab.beside import BesideError, explicit_config, requests_in, serve_vllm
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.trace.compare import compare
from engine.trace.log import TraceReader

SHIPPED = static_dir() / "recordings"


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model()


def test_requests_are_sorted_by_step(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"prompt": "a", "at_step": 4}\n\n{"prompt": [1, 2], "max_tokens": 3}\n', encoding="utf-8")
    late = requests_in(path)[1]
    assert [(one.at_step, one.max_tokens) for one in requests_in(path)] == [(0, 3), (4, 64)]
    assert late.prompt == "a"


@pytest.mark.parametrize(
    ("text", "message"), [("{", "line 1"), ('{"prompt": "a", "at": 3}', "at"), ("", "no requests")]
)
def test_an_invalid_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BesideError, match=message):
        requests_in(path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (EngineConfig(num_blocks=8, strategy="concat"), "strategy concat"),
        (EngineConfig(num_blocks=8, preemption_mode="swap", swap_space=4), "preemption_mode swap"),
        (EngineConfig(), "--num-blocks"),
        (EngineConfig(num_blocks=8, attention_window=16), "attention window"),
    ],
)
def test_settings_that_vllm_lacks_are_refused(model: LoadedModel, config: EngineConfig, message: str) -> None:
    with pytest.raises(BesideError, match=message):
        explicit_config(config, model)


@pytest.mark.slow
def test_an_environment_without_vllm_is_reported(model: LoadedModel, tmp_path: Path) -> None:
    config = explicit_config(EngineConfig(num_blocks=8, block_size=32), model)
    path = tmp_path / "requests.jsonl"
    path.write_text('{"prompt": "a"}', encoding="utf-8")
    with pytest.raises(BesideError, match=r"vLLM did not run: .*(vLLM is not installed|No module named)"):
        serve_vllm(Path(sys.executable), model, config, requests_in(path), tmp_path / "vllm.kvtrace", 0.3)
    with pytest.raises(BesideError, match="cannot be run"):
        serve_vllm(tmp_path / "no-python", model, config, requests_in(path), tmp_path / "vllm.kvtrace", 0.3)


def test_equal_steps_are_counted() -> None:
    with TraceReader(SHIPPED / "beside-ours.kvtrace") as one, TraceReader(SHIPPED / "beside-vllm.kvtrace") as two:
        found = compare(one, two)
        assert equal_steps(found) == found.a.totals.num_steps == 56
    with TraceReader(SHIPPED / "beside-ours.kvtrace") as one, TraceReader(SHIPPED / "moon.kvtrace") as two:
        assert equal_steps(compare(one, two)) == 0
