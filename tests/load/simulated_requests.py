"""Time of 10,000 requests in the simulator, on one core; the bound is 10 s.

    python -m tests.load.simulated_requests            three runs of each setting, one after another, on a quiet machine
    python -m tests.load.simulated_requests --keep     and the record beside this file
    python -m tests.load.simulated_requests --requests 500 --rounds 1      a smaller one of the same kind

512 tokens in, 64 out, Poisson, Llama 2 7B on an A100; with prefix caching and without. Processor seconds are told
beside seconds: where both are alike nothing else ran.
"""

import argparse
import random
import sys
import time
from pathlib import Path
from typing import NamedTuple

from engine.config import EngineConfig
from engine.simulate.layers import card_of
from engine.simulate.outcome import SimulatedRequest
from engine.simulate.placed import facts_of
from engine.simulate.simulation import Simulation
from tests.load.record import Measuring

RECORD = Path(__file__).with_suffix(".json")
MODEL, GPU = "llama-2-7b", "a100-80gb"
RATE, PROMPT, OUTPUT = 9.0, 512, 64  # requests a second, tokens of each
WITHIN = 10.0  # seconds for 10,000


class Took(NamedTuple):
    """Timing of a run. `simulated`: its simulated seconds."""

    seconds: float
    processor_seconds: float
    steps: int
    simulated: float


def requests(number: int, vocab_size: int, seed: int) -> list[SimulatedRequest]:
    """Return random prompts, which do not hit the prefix cache."""
    draw, at, found = random.Random(seed), 0.0, []
    for _ in range(number):
        at += draw.expovariate(RATE)
        found.append(SimulatedRequest([draw.randrange(vocab_size) for _ in range(PROMPT)], OUTPUT, at))
    return found


def took(number: int, caching: bool, seed: int) -> Took:
    """Time one run from the requests to the last token, without creating the prompts."""
    card = card_of(MODEL, GPU)
    config = EngineConfig(
        block_size=16,
        num_blocks=card.room_tokens() // 16,
        max_num_seqs=64,
        max_num_batched_tokens=2048,
        enable_prefix_caching=caching,
    )
    wanted = requests(number, card.model.vocab_size, seed)
    began, busy = time.perf_counter(), time.process_time()
    simulation = Simulation(facts_of(card.model), config, card.cost(), seed=seed, keep_log=False)
    outcome = simulation.run(wanted)
    simulation.close()
    assert all(len(one.tokens) == OUTPUT for one in outcome.requests)
    return Took(time.perf_counter() - began, time.process_time() - busy, outcome.num_steps, outcome.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help=f"write {RECORD.name} beside this file")
    arguments = parser.parse_args()
    measuring = Measuring()
    runs: dict[str, list[Took]] = {"prefix caching": [], "no prefix caching": []}
    for seed in range(arguments.rounds):
        for name, found in runs.items():
            found.append(took(arguments.requests, name == "prefix caching", seed))
            print(f"{name}: {found[-1].seconds:.2f} s, {found[-1].steps} steps", flush=True)
    slowest = max(one.seconds for found in runs.values() for one in found)
    record = {
        "requests": arguments.requests,
        "tokens": [PROMPT, OUTPUT],
        "runs": {name: [one._asdict() for one in found] for name, found in runs.items()},  # by seed, from 0 on
    }
    measuring.record(record, RECORD if arguments.keep else None)
    if arguments.requests == 10_000 and slowest > WITHIN:
        sys.exit(f"10,000 requests took {slowest:.2f} s; {WITHIN:g} s are what they are held to")


if __name__ == "__main__":
    main()
