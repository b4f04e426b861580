"""Workloads with tiers: loads, comparisons with a run without tiers, and cleanup."""

from pathlib import Path

import pytest

from engine.bench.runner import Runner
from tests.unit.bench.small import SMALL, TEXT, scenario

pytestmark = pytest.mark.slow

TURNS = {
    "kind": "multi_turn", "conversations": 4, "turns": 3, "system_tokens": 4, "user_tokens": 20, "output_tokens": 4,
}  # fmt: skip
VARIANTS = [
    {"id": "pool", "title": TEXT},
    {"id": "cpu", "title": TEXT, "set": {"tiers.cpu": "4MiB"}},
    {"id": "disk", "title": TEXT, "set": {"tiers.disk": "4MiB"}},
    {"id": "concat", "title": TEXT, "set": {"tiers.cpu": "4MiB", "engine.strategy": "none"}},
]
MEASURED = [
    "computed_tokens",
    "cpu_hit_rate",
    "disk_hit_rate",
    "loaded_bytes",
    "stored_bytes",
    "load_over_estimate_p50",
]


def test_turns_that_exceed_the_pool_are_loaded_from_tiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool holds one and a half of four conversations of up to 76 tokens. Without tiers, a turn recomputes nearly
    all of its history.
    """
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spec = scenario(
        rounds=1,
        workload=TURNS,
        engine={**SMALL["engine"], "pool_slots": 120, "max_model_len": 100, "max_num_seqs": 1},
        axis={"name": "requests", "title": TEXT, "sets": ["workload.conversations"], "values": [4]},
        variants=VARIANTS,
        measure=MEASURED,
        baselines=["pool"],
    )
    record = Runner(spec, quiet_seconds=0).run()
    points = {point.variant: point for point in record.points}
    pool, cpu, disk = (points[name].figures for name in ("pool", "cpu", "disk"))
    assert all(points[name].tokens_identical for name in ("pool", "cpu", "disk"))
    assert pool["loaded_bytes"].median == pool["cpu_hit_rate"].median == 0
    assert "load_over_estimate_p50" not in pool
    for found, name, other in ((cpu, "cpu", "disk"), (disk, "disk", "cpu")):
        assert found["computed_tokens"].median < pool["computed_tokens"].median
        assert found[f"{name}_hit_rate"].median > 0 and found[f"{other}_hit_rate"].median == 0
        assert found["loaded_bytes"].median % (4 * 2048) == 0, "whole blocks of 4 tokens"
        assert found["stored_bytes"].median > 0
    assert cpu["load_over_estimate_p50"].median > 0
    assert "strategy paged" in points["concat"].failed
    assert list(tmp_path.iterdir()) == [], "the disk's folder is deleted"
