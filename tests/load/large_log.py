"""Generate logs as large as in production, with the project's scheduler and block manager, without a model.

    python -m tests.load.large_log FILE                                100,000 blocks, 10,000 requests, 300,000 steps
    python -m tests.load.large_log FILE --requests 500 --blocks 4000   a smaller one of the same kind, 15,000 steps

Requests arrive at a steady rate, most with one of a few shared prefixes. Occasional bursts of long requests cause
evictions, waiting requests and preemptions. The same seed gives the same log. Step times are synthetic, as stated in
the header.
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from engine.config import EngineConfig
from engine.simulate.cost import Linear
from engine.simulate.outcome import SimulatedRequest
from engine.simulate.simulation import Simulation
from engine.trace.records import ModelFacts

VOCABULARY = 32_000
COST = Linear([1, 2048], [0.010, 0.060], 1e-5, 1e-8, 0.0, "given: 10 ms for one token, 60 ms for 2,048")
FACTS = ModelFacts(
    name="made up",
    architecture="LlamaForCausalLM",
    num_params=7_000_000_000,
    num_layers=32,
    hidden_size=4096,
    intermediate_size=11_008,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    v_head_dim=128,
    vocab_size=VOCABULARY,
    max_position=32_768,
    dtype="bfloat16",
    sliding_windows=[None] * 32,
)


class Shape(NamedTuple):
    """Size of a generated log."""

    blocks: int = 100_000
    requests: int = 10_000
    steps: int = 300_000  # approximate target for arrival rate and output lengths
    bursts: int = 3  # number of bursts of long requests
    seed: int = 0


def requests(shape: Shape) -> list[SimulatedRequest]:
    """Return all requests, in order of arrival."""
    draw = np.random.default_rng(shape.seed)
    prefixes = [draw.integers(300, VOCABULARY, int(n)).tolist() for n in draw.integers(200, 2000, 24)]
    burst = min(shape.requests // 8, max(1, 26 * shape.blocks // 10_000))  # requests, which together exceed the pool
    steady = shape.requests - shape.bursts * burst
    together = 5  # requests that run at a time
    output = max(4, shape.steps * together // steady)
    step = COST.of_tokens(together) + COST.seq_seconds * together
    seconds = shape.steps * step
    found = [
        SimulatedRequest(
            [*prefixes[int(draw.zipf(1.3)) % len(prefixes)], *_own(draw, 20, 1000)],
            int(draw.integers(output // 2, output * 3 // 2)),
            float(at),
        )
        for at in np.sort(draw.uniform(0, seconds, steady))
    ]
    long = min(16 * shape.blocks // burst * 5 // 4, 12_000, 8 * shape.blocks)  # tokens
    for at in np.linspace(0.2, 0.8, shape.bursts) * seconds:
        found += [
            SimulatedRequest(_own(draw, long // 2, long), int(draw.integers(8 * output, 11 * output)), float(at))
            for _ in range(burst)
        ]
    return sorted(found, key=lambda one: one.at)


def write(path: Path, shape: Shape) -> None:
    """Write the log of a run of this size."""
    config = EngineConfig(
        num_blocks=shape.blocks,
        block_size=16,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
        max_model_len=16_384,
        num_logprobs=0,
        seed=shape.seed,
    )
    simulation = Simulation(FACTS, config, COST, seed=shape.seed, log_path=path)
    try:
        simulation.run(requests(shape))
    finally:
        simulation.close()


def main(arguments: list[str] | None = None) -> None:
    """Write a log, and print its size. `arguments`: command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    usual = Shape()
    for name, value in usual._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=None if name == "steps" else value)
    given = vars(parser.parse_args(arguments))
    path: Path = given.pop("file")
    if given["steps"] is None:  # fewer requests over as many steps would be longer than a model's context
        given["steps"] = usual.steps * given["requests"] // usual.requests
    began = time.monotonic()
    write(path, Shape(**given))
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB in {time.monotonic() - began:.0f} s")


def _own(draw: np.random.Generator, least: int, most: int) -> list[int]:
    tokens: list[int] = draw.integers(300, VOCABULARY, int(draw.integers(least, most + 1))).tolist()
    return tokens


if __name__ == "__main__":
    main()
