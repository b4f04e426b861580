"""Recording of an installed vLLM, where `KVTHEATER_PEERS` has an environment with it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.trace.check import check

PINNED = "0.32.0"  # each newer one is looked at before it stands here
ROOT = Path(__file__).parents[3]


def python_with_vllm() -> Path:
    """Return the interpreter of an environment with vLLM; skip the test if there is none."""
    path = Path(os.environ.get("KVTHEATER_PEERS", "")) / "vllm" / "bin" / "python"
    if not os.environ.get("KVTHEATER_PEERS") or not path.exists():
        pytest.skip("vLLM is not installed (python -m tools.peer_environments FOLDER, then KVTHEATER_PEERS=FOLDER)")
    return path


ENGINE = {
    "model": str(ROOT / "engine/model/bundled"),
    "block_size": 32,
    "max_model_len": 256,
    "enforce_eager": True,
    "dtype": "float32",
    "gpu_memory_utilization": 0.3,
}


def answer_of(folder: Path, program: list[str], engine: dict[str, Any], requests: list[dict[str, Any]]) -> Any:
    """Return the last line of a program that serves these requests with vLLM. Its log is `run.kvtrace`."""
    job = {"engine": {**ENGINE, **engine}, "requests": requests, "trace": str(folder / "run.kvtrace")}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    done = subprocess.run(
        [str(python_with_vllm()), *program, str(folder / "job.json")],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_real_vllm_is_recorded(tmp_path: Path) -> None:
    """Requests with a shared prefix run in a pool too small for all: the log is sound and complete."""
    requests = [
        {"request_id": str(i), "prompt": [*range(100, 164), 200 + i], "max_tokens": 40, "ignore_eos": True}
        for i in range(6)
    ]
    answer = answer_of(
        tmp_path, ["-m", "engine.observe.vllm_recorder.offline"], {"num_gpu_blocks_override": 13}, requests
    )
    assert answer["vllm"] == PINNED
    assert answer["ended"] is None
    assert {name: len(tokens) for name, tokens in answer["outputs"].items()} == {str(i): 40 for i in range(6)}
    assert list(check(tmp_path / "run.kvtrace")) == []


@pytest.mark.slow
def test_vllms_events_match_its_pool(tmp_path: Path) -> None:
    """Three prefixes alternate, and every other request of a wave ends equally: contents have copies, and are
    evicted.
    """
    requests = [
        {
            "request_id": str(i),
            "prompt": [*range(i // 6 % 3 * 500 + 100, i // 6 % 3 * 500 + 196), *([200 + i if i % 2 else 7] * 40)],
            "max_tokens": 10 + i * 7 % 50,
            "ignore_eos": True,
            "at_step": i // 6 * 11,
        }
        for i in range(48)
    ]
    engine = {"num_gpu_blocks_override": 22, "kv_events_config": {"enable_kv_cache_events": True, "publisher": "null"}}
    answer = answer_of(tmp_path, [str(Path(__file__).with_name("told_and_cached.py"))], engine, requests)
    assert answer["copies"] > 0 and answer["most"] > 15, answer
    assert (answer["wrong"], answer["missed"]) == (0, 0), answer
