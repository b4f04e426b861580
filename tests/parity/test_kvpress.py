"""The positions that stay after a prompt equal those of NVIDIA's kvpress, for the policies that both have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from engine.cache.forget_settings import PolicyName
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loader import from_module
from engine.trace.operations import Forget
from tests.tiny_models import VOCAB_SIZE, tiny_model, tiny_tokenizer

kvpress = pytest.importorskip("kvpress", reason="kvpress is not installed (pip install kvpress)")

NUM_TOKENS, BUDGET = 40, 17
SINKS = {"window": 4, "expected_attention": 4}
RECENT = {"tova": 1, "snapkv": 8}  # that kvpress keeps in any case


def press_of(name: PolicyName) -> Any:
    match name:
        case "window":
            return kvpress.StreamingLLMPress(n_sink=4)
        case "tova":
            return kvpress.TOVAPress()
        case "snapkv":
            return kvpress.SnapKVPress(window_size=8, kernel_size=5)
        case "key_norm":
            return kvpress.KnormPress()
        case _:
            return kvpress.ExpectedAttentionPress(n_sink=4)


def kept_by_kvpress(press: Any, module: Any, prompt: list[int]) -> dict[int, list[set[int]]]:
    """Return kept positions by layer and KV head. kvpress's hook needs keywords of an older transformers; its scores do
    not.
    """
    kept: dict[int, list[set[int]]] = {}

    def hook(attention: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        cache = kwargs["past_key_values"].layers[attention.layer_idx]
        attention.rotary_emb = module.model.rotary_emb
        press.compression_ratio = 1 - BUDGET / NUM_TOKENS  # which only StreamingLLM's scores read
        scores = press.score(attention, kwargs["hidden_states"], cache.keys, cache.values, None, kwargs)
        kept[attention.layer_idx] = [set(row.topk(BUDGET).indices.tolist()) for row in scores[0]]

    handles = [layer.self_attn.register_forward_hook(hook, with_kwargs=True) for layer in module.model.layers]
    with torch.inference_mode():
        module(torch.tensor([prompt]), past_key_values=transformers.DynamicCache(), use_cache=True)
    for handle in handles:
        handle.remove()
    return kept


@pytest.mark.parametrize(
    ("name", "family"),
    [(name, family)
     for name in ("window", "tova", "snapkv", "key_norm", "expected_attention")
     for family in ("llama", "qwen3")
     if (name, family) != ("key_norm", "qwen3")],  # whose random keys are all of one length
)  # fmt: skip
def test_the_kept_positions_are_those_of_kvpress(name: PolicyName, family: str) -> None:
    generator = torch.Generator().manual_seed(3)
    prompt = torch.randint(3, VOCAB_SIZE, (NUM_TOKENS,), generator=generator).tolist()
    theirs = kept_by_kvpress(press_of(name), tiny_model(family), prompt)
    config = EngineConfig(
        block_size=4,
        forget_policy=name,
        forget_budget=BUDGET,
        forget_sinks=SINKS.get(name, 0),
        forget_recent=RECENT.get(name, 0),
        max_num_batched_tokens=7,
    )
    with Engine(from_module(tiny_model(family), tiny_tokenizer(), family), config) as engine:
        engine.add_request(prompt, SamplingParams(max_tokens=1))
        while engine.has_unfinished():
            record = engine.step()
    forgotten = [op for op in record.ops if isinstance(op, Forget)]
    ours = {op.layer: [set(range(NUM_TOKENS)) - set(gone) for gone in op.positions] for op in forgotten}
    assert ours == theirs
