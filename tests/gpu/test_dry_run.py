"""Dry run of `tests.gpu` on the CPU, so that bugs in it cost no time on a borrowed GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.bench.record import read_records
from tests.gpu.results import read

ROOT = Path(__file__).parents[2]
PARTS = ("right", "fast", "trained", "shown")


def run(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.gpu", "--device", "cpu", "--tiny", "--out", str(out), *options],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_part_runs_and_what_it_wrote_is_read_again(tmp_path: Path) -> None:
    done = run(tmp_path, "--minutes", "12")
    found = read(tmp_path)
    assert done.returncode == 0, [one for one in found if one["status"] == "wrong"] or done.stderr[-2000:]
    assert {one["part"] for one in found if one["status"] in ("right", "measured")} == set(PARTS)
    assert not [one for one in found if one["status"] == "skipped" and not one["text"]], "a reason for each"
    (record,) = read_records(tmp_path / "records")
    assert {"eager", "all-of-them", "dynamic", "continuous"} <= {
        point.variant for point in record.points if point.figures
    }
    assert (tmp_path / "trained" / "model" / "model.safetensors").exists()
    assert "aten::" in (tmp_path / "profile-tiny-llama-1.txt").read_text()


@pytest.mark.slow
def test_a_part_is_stopped_at_its_limit_and_its_results_stay(tmp_path: Path) -> None:
    done = run(tmp_path, "--minutes", "0.2", "--parts", "right")
    assert done.returncode == 0, done.stdout + done.stderr
    *before, last = read(tmp_path)
    assert last["status"] == "stopped" and all(one["status"] != "wrong" for one in before)


@pytest.mark.slow
def test_a_wrong_result_is_a_status_and_is_kept_with_its_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test with a backend that ignores the last key."""
    import torch
    from safetensors.torch import load_file

    from engine.model.attention_gather import GatherAttention
    from tests.gpu import right
    from tests.gpu.results import Run

    class Broken(GatherAttention):
        def forward(self, *given, **more):  # type: ignore[no-untyped-def]
            found = super().forward(*given, **more)
            return found._replace(out=found.out + 0.1)

    monkeypatch.setattr(right, "backend_of", lambda *_: Broken())
    one = Run("right", "cpu", True, 60.0, tmp_path, {}, 0.0)
    name, check = next(right.attention(one))
    with one.trying(name):
        check()
    (result,) = read(tmp_path)
    assert result["status"] == "wrong" and "off by 0.1" in result["text"]
    (file,) = (tmp_path / "mismatches").glob("*.safetensors")
    tensors = load_file(file)
    assert {"q", "k", "v", "found", "expected"} <= set(tensors)
    worst = (tensors["found"] - tensors["expected"]).abs().max()
    assert torch.isclose(worst, torch.tensor(0.1), atol=1e-4)
    assert "block_tables" in json.loads(file.with_suffix(".json").read_text())
