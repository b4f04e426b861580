"""Greedy output is the same under every configuration of memory management."""

import pytest
import torch

from engine.config import EngineConfig
from tests.tiny_models import tiny_model
from tests.unit.engine.runs import CONFIGS, GREEDY, PROMPTS, outputs_of, tiny_llama


@pytest.fixture(scope="module")
def reference() -> list[list[int]]:
    """Return greedy outputs of transformers, one prompt at a time and without a cache."""
    module = tiny_model("llama")
    outputs = []
    for prompt in PROMPTS:
        ids = list(prompt)
        for _ in range(GREEDY.max_tokens or 0):
            with torch.inference_mode():
                logits = module(torch.tensor([ids]), use_cache=False).logits[0, -1]
            ids.append(int(logits.argmax()))
        outputs.append(ids[len(prompt) :])
    return outputs


@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_output_is_equal_under_every_strategy_and_pool(name: str, reference: list[list[int]]) -> None:
    assert outputs_of(CONFIGS[name]) == reference


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("budget", [3, 16, 512])
@pytest.mark.parametrize("prefix_caching", [False, True])
def test_greedy_output_is_equal_under_every_block_size_and_budget(
    block_size: int, budget: int, prefix_caching: bool, reference: list[list[int]]
) -> None:
    config = EngineConfig(
        block_size=block_size,
        num_blocks=128 // block_size,
        max_model_len=64,
        max_num_batched_tokens=budget,
        enable_prefix_caching=prefix_caching,
    )
    assert outputs_of(config) == reference


def test_greedy_output_does_not_depend_on_the_batch(reference: list[list[int]]) -> None:
    config = EngineConfig(block_size=4, num_blocks=64, max_model_len=64)
    for prompt, expected in zip(PROMPTS, reference, strict=True):
        assert outputs_of(config, [prompt]) == [expected]


def test_the_model_has_grouped_heads() -> None:
    assert tiny_llama().facts.num_kv_heads < tiny_llama().facts.num_heads
