"""Hits of a real service's requests equal those of Dynamo's simulator of vLLM, request by request."""

import json
from pathlib import Path

import numpy as np
import pytest

from engine.config import EngineConfig
from engine.simulate.cost import Fixed
from engine.simulate.outcome import SimulatedRequest
from engine.simulate.simulation import Simulation
from engine.trace.operations import Lookup
from engine.trace.records import StepRecord
from tests.unit.accounting.model_facts import facts

FOUND = json.loads(Path(__file__).with_name("dynamo_hits.json").read_text())
TRACE = Path(__file__).parents[3] / "engine" / "bench" / "traces" / f"{FOUND['trace']}.jsonl"
BLOCK_SIZE, VOCABULARY = FOUND["block_size"], 50_000
INTERVAL = 1e5  # seconds between requests, so that each one finishes before the next arrives


def block(hash_id: int) -> list[int]:
    """Return the tokens of a block, which are equal for equal hashes."""
    return np.random.default_rng(hash_id).integers(0, VOCABULARY, BLOCK_SIZE).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("num_blocks", [int(number) for number in FOUND["reused_tokens"]])
def test_every_request_has_the_hits_of_dynamos_simulator(num_blocks: int) -> None:
    rows = [json.loads(line) for line in TRACE.read_text().splitlines()]
    tokens = {hash_id: block(hash_id) for row in rows for hash_id in row["hash_ids"]}
    requests = [
        SimulatedRequest(
            [token for hash_id in row["hash_ids"] for token in tokens[hash_id]][: row["input_length"]],
            row["output_length"],
            i * INTERVAL,
        )
        for i, row in enumerate(rows)
    ]
    config = EngineConfig(
        block_size=BLOCK_SIZE, num_blocks=num_blocks, max_model_len=140_000, max_num_batched_tokens=200_000
    )
    model = facts(1, 64, 1, vocab_size=VOCABULARY, max_position=200_000)
    simulation = Simulation(model, config, Fixed(0.001))
    hits: list[int] = []

    def listen(record: StepRecord) -> None:
        hits.extend(op.num_hit_tokens for op in record.ops if isinstance(op, Lookup))

    assert simulation.log is not None
    simulation.log.subscribe(listen)
    simulation.run(requests)
    simulation.close()
    assert hits == FOUND["reused_tokens"][str(num_blocks)]
