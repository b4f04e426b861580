"""Scenario that runs in a second, and hand-written records, for several tests."""

from typing import Any

import msgspec

from engine.bench.code import step_code_hash
from engine.bench.figures import figures
from engine.bench.metrics import METRICS
from engine.bench.record import Environment, MetricInfo, Point, Record
from engine.bench.scenario import Scenario
from engine.trace.records import Machine

TEXT = {"en": "text", "zh": "文字"}

SMALL: dict[str, Any] = {
    "id": "small",
    "title": TEXT,
    "text": TEXT,
    "rounds": 2,
    "measure": ["seconds", "output_tokens_per_second", "ttft_p50", "computed_tokens", "waste"],
    "baselines": ["none"],
    "workload": {"kind": "random", "num_requests": 2, "prompt_tokens": 5, "output_tokens": 3},
    "engine": {"pool_slots": 64, "block_size": 4, "max_model_len": 16, "num_logprobs": 0},
    "axis": {"name": "requests", "title": TEXT, "sets": ["workload.num_requests"], "values": [1, 2]},
    "variants": [{"id": "none", "title": TEXT, "set": {"engine.strategy": "none"}}, {"id": "paged", "title": TEXT}],
}


def scenario(**changes: Any) -> Scenario:
    """Return the small scenario with other settings at its top level."""
    return msgspec.convert({**SMALL, **changes}, Scenario)


def record(samples: dict[str, dict[str, list[float]]], **changes: Any) -> Record:
    """Return a record of one point (1 request) with these samples: variant -> metric -> one per round."""
    spec = scenario(axis={**SMALL["axis"], "values": [1]})
    baselines = {"none": samples["none"]}
    points = [
        Point(at=1, variant=variant, figures=figures(own, baselines, 0), tokens_identical=True)  # type: ignore[arg-type]
        for variant, own in samples.items()
    ]
    names = {name for own in samples.values() for name in own}
    fields: dict[str, Any] = {
        "scenario": spec,
        "environment": Environment(
            created="2026-01-01T00:00:00+00:00",
            command="kvtheater bench run small",
            commit=None,
            modified=None,
            code=step_code_hash(),
            system="Linux x86_64",
            machine=Machine(device="cpu", processor="a processor", num_threads=2, versions={"torch": "2"}),
            num_cpus=2,
            memory_bytes=None,
            seed=0,
            quiet=True,
            busy_cpus=0.0,
        ),
        "rounds": len(next(iter(samples["none"].values()))),
        "complete": True,
        "peers": {},
        "axis_values": [1],
        "metrics": {
            name: MetricInfo(unit=m.unit, better=m.better, source=m.source, title=m.title)
            for name, m in METRICS.items()
            if name in names
        },
        "points": points,
        "findings": [],
    }
    return Record(**{**fields, **changes})
