"""Reproduction of the decisions of vLLM 0.32.0 (`vllm/`, captured by `tests/load/beside_vllm.py`)."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig
from engine.simulate.cost import Linear
from engine.simulate.outcome import SimulatedRequest
from engine.simulate.simulation import Simulation
from engine.trace.operations import Preempt
from engine.trace.records import StepRecord
from tests.load.beside_vllm import BLOCK_SIZE, CASES, DEFAULTS, MAX_MODEL_LEN, requests
from tests.unit.accounting.model_facts import facts

CAPTURED = Path(__file__).with_name("vllm")
SECOND = Linear([1], [1.0], 0.0, 0.0, 0.0, "a second for each step")


def name_of(path: Path) -> str:
    return next(case for case in CASES if path.name.startswith(case.replace(", ", "-").replace(" ", "_") + "."))


@pytest.mark.parametrize("path", sorted(CAPTURED.iterdir()), ids=lambda path: path.name.split(".")[0])
def test_every_step_equals_vllms(path: Path) -> None:
    """Scheduled tokens, hits and preemptions of 60 concurrent requests agree in every step."""
    expected = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    settings: dict[str, Any] = DEFAULTS | CASES[name_of(path)]
    blocks = settings.pop("blocks") - 1  # vLLM never uses its first block
    config = EngineConfig(block_size=BLOCK_SIZE, num_blocks=blocks, max_model_len=MAX_MODEL_LEN, **settings)
    found = list[dict[str, Any]]()

    def take(record: StepRecord) -> None:
        if record.kind == "step":
            found.append(
                {
                    "scheduled": {str(entry.seq_id): len(entry.token_ids) for entry in record.batch},
                    "computed": {str(entry.seq_id): entry.start for entry in record.batch},
                    "preempted": sorted(str(op.seq_id) for op in record.ops if isinstance(op, Preempt)),
                }
            )

    simulation = Simulation(facts(2, 32, 4), config, SECOND, keep_log=False, watch=take)
    simulation.run([SimulatedRequest(one["prompt"], one["max_tokens"]) for one in requests(60, 0)])
    simulation.close()
    assert len(found) == len(expected)
    for number, (step, vllm_step) in enumerate(zip(found, expected, strict=True)):
        assert step == vllm_step, f"step {number}"
