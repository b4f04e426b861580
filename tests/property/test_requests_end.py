"""Each request that fits the pool alone finishes among others with the same tokens, also with samples, beams, chunks
and preemption in either mode.
"""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.trace.operations import Preempt
from tests.unit.engine.runs import ops_of, tiny_llama

BLOCK_SIZE = 4
MAX_TOKENS = 8
ROOMY = EngineConfig(block_size=BLOCK_SIZE, num_blocks=120, max_model_len=48)
FORGETTING = replace(ROOMY, forget_policy="h2o", forget_budget=9, forget_sinks=1, forget_recent=2, forget_pool=3)
ROUNDS = 6


def params(width: int, with_beams: bool) -> SamplingParams:
    if with_beams:
        return SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True, use_beam_search=True, beam_width=width, n=width)
    return SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True, n=width, temperature=1.0, seed=7)


def run_all(
    config: EngineConfig, requests: list[tuple[list[int], SamplingParams]]
) -> tuple[list[list[list[int]]], int]:
    """Return the output tokens by request and the number of preemptions."""
    num_preemptions = 0
    with Engine(tiny_llama(), config, keep_log=False) as engine:
        added = [engine.add_request(prompt, sampling) for prompt, sampling in requests]
        while engine.has_unfinished():
            num_preemptions += len(ops_of(engine.step(), Preempt))
            engine.check_integrity()
        return [[output.output_token_ids for output in request.outputs] for request in added], num_preemptions


@pytest.mark.parametrize("cache", ["prefix cache", "no prefix cache", "forgetting"])
@pytest.mark.parametrize("mode", ["recompute", "swap"])
@pytest.mark.parametrize("kind", ["beams", "samples", "both"])
def test_every_request_that_fits_the_pool_alone_finishes_among_others(kind: str, mode: str, cache: str) -> None:
    rng, num_preemptions = random.Random(3), 0
    roomy = FORGETTING if cache == "forgetting" else replace(ROOMY, enable_prefix_caching=cache == "prefix cache")
    for _ in range(ROUNDS):
        width = rng.choice([2, 2, 3])
        prompts = [[rng.randint(3, 120) for _ in range(rng.randint(5, 24))] for _ in range(rng.choice([3, 4]))]
        kinds = [{"beams": True, "samples": False}.get(kind, number % 2 == 0) for number in range(len(prompts))]
        requests = [(p, params(width, with_beams)) for p, with_beams in zip(prompts, kinds, strict=True)]
        num_needed = width * -(-(max(map(len, prompts)) + MAX_TOKENS - 1) // BLOCK_SIZE)
        tight = replace(
            roomy,
            num_blocks=num_needed + rng.choice([0, 0, 1, 2]),
            max_num_batched_tokens=rng.choice([4, 8, 8, 11]),
            preemption_mode=mode,
            swap_space=rng.choice([2, 9, 40]) if mode == "swap" else None,
            scheduling_policy=rng.choice(["fcfs", "fcfs", "priority"]),
        )
        generated, count = run_all(tight, requests)
        num_preemptions += count
        assert generated == run_all(roomy, requests)[0]
    assert num_preemptions
