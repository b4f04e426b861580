"""Recording of vLLM, if it is installed in the environments of `KVTHEATER_PEERS`."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.trace.check import check

PINNED = "0.32.0"  # the newest version that was reviewed
ROOT = Path(__file__).parents[3]


def python_with_vllm() -> Path:
    """Return the interpreter of an environment with vLLM, or skip the test."""
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


def result_of(folder: Path, program: list[str], engine: dict[str, Any], requests: list[dict[str, Any]]) -> Any:
    """Return the last output line of a program that serves these requests with vLLM and writes `run.kvtrace`."""
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
def test_a_log_of_vllm_is_valid_and_complete(tmp_path: Path) -> None:
    """Requests with a shared prefix run in a pool that is too small for all."""
    requests = [
        {"request_id": str(i), "prompt": [*range(100, 164), 200 + i], "max_tokens": 40, "ignore_eos": True}
        for i in range(6)
    ]
    result = result_of(
        tmp_path, ["-m", "engine.observe.vllm_recorder.offline"], {"num_gpu_blocks_override": 13}, requests
    )
    assert result["vllm"] == PINNED
    assert result["ended"] is None
    assert {name: len(tokens) for name, tokens in result["outputs"].items()} == {str(i): 40 for i in range(6)}
    assert list(check(tmp_path / "run.kvtrace")) == []


@pytest.mark.slow
def test_events_of_vllm_match_its_pool(tmp_path: Path) -> None:
    """Three prefixes alternate, and every other request of a wave has the same ending, so that contents have copies
    and are evicted.
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
    result = result_of(tmp_path, [str(Path(__file__).with_name("events_and_pool.py"))], engine, requests)
    assert result["copies"] > 0 and result["most"] > 15, result
    assert (result["wrong"], result["missed"]) == (0, 0), result
