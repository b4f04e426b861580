"""The version of vLLM whose scheduler is watched, where `KVTHEATER_PEERS` has an environment with it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from engine.trace.check import check

PINNED = "0.32.0"  # each newer one is looked at before it stands here
ROOT = Path(__file__).parents[3]


def python_with_vllm() -> Path:
    """Its interpreter; skips where there is none."""
    path = Path(os.environ.get("KVTHEATER_PEERS", "")) / "vllm" / "bin" / "python"
    if not os.environ.get("KVTHEATER_PEERS") or not path.exists():
        pytest.skip("vLLM is not here (python -m tools.peer_environments FOLDER, then KVTHEATER_PEERS=FOLDER)")
    return path


@pytest.mark.slow
def test_it_is_watched(tmp_path: Path) -> None:
    """Requests that share a beginning, in a pool too small for all of them: the log is sound and has all of it."""
    requests = [
        {"request_id": str(i), "prompt": [*range(100, 164), 200 + i], "max_tokens": 40, "ignore_eos": True}
        for i in range(6)
    ]
    engine = {
        "model": str(ROOT / "engine/model/bundled"),
        "block_size": 32,
        "num_gpu_blocks_override": 13,
        "max_model_len": 256,
        "enforce_eager": True,
        "dtype": "float32",
        "gpu_memory_utilization": 0.3,
    }
    job, trace = tmp_path / "job.json", tmp_path / "run.kvtrace"
    job.write_text(json.dumps({"engine": engine, "requests": requests, "trace": str(trace)}), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    said = subprocess.run(
        [str(python_with_vllm()), "-m", "engine.watch.offline", str(job)],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    answer = json.loads(said.stdout.splitlines()[-1])
    assert answer["vllm"] == PINNED
    assert answer["ended"] is None
    assert {name: len(tokens) for name, tokens in answer["outputs"].items()} == {str(i): 40 for i in range(6)}
    assert list(check(trace)) == []
