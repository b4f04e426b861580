"""Layers with a state compute the same packed, in chunks and over scattered blocks as the module itself."""

from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING

from engine.model.errors import ModelError
from engine.model.facts import refuse_unsupported
from engine.model.loader import from_module
from engine.model.plain_check import ROUNDINGS, compare_logits
from tests.causal_types import VOCAB_SIZE, causal_config
from tests.hybrid_types import REFUSED, SERVED, hybrid_model
from tests.parity.harness import Driver, mixed_schedule, random_prompt

LENGTHS = {5: 14, 9: 18, 2: 11}  # seq_id -> tokens


def plain(module: Any, sequences: dict[int, list[int]]) -> dict[int, torch.Tensor]:
    with torch.inference_mode():
        return {seq: module(input_ids=torch.tensor([ids]), use_cache=False).logits[0] for seq, ids in sequences.items()}


@pytest.mark.parametrize("model_type", sorted(SERVED))
def test_a_packed_step_computes_what_the_module_does(model_type: str) -> None:
    """Steps have chunks, single tokens and several sequences; a state is stored at each block's end, or at none."""
    module = hybrid_model(model_type)
    sequences = {seq: random_prompt(length, VOCAB_SIZE, seq) for seq, length in LENGTHS.items()}
    expected = plain(module, sequences)
    model = from_module(module)
    assert model.plain.rounding is not None and model.states is not None
    assert model.facts.state_bytes == model.states.num_bytes > 0
    # these sequences are longer than those that rounding was measured on, and it grows with the tokens
    most = 4 * ROUNDINGS * model.plain.rounding
    for block_size, num_blocks in ((4, 16), (1, 64), (64, 3)):
        driver = Driver(model, block_size, num_blocks)
        mixed_schedule(driver, sequences)
        for (seq, position), row in driver.logits.items():
            found = compare_logits([row[None]], [expected[seq][position][None]], torch.float32)
            assert found.share <= most, (block_size, seq, position, found.share, most)


@pytest.mark.parametrize("model_type", sorted(REFUSED))
def test_unsupported_hybrids_are_refused(model_type: str) -> None:
    module = hybrid_model(model_type)
    with pytest.raises(ModelError, match=REFUSED[model_type][1]) as caught:
        from_module(module)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model_type", ["qwen4_exp"])
def test_an_indexed_layer_is_refused_before_the_weights(model_type: str) -> None:
    config = CONFIG_MAPPING[model_type]()
    from transformers import AutoModelForCausalLM

    with pytest.raises(ModelError, match=r"layers of type (indexed|qwen_sparse)_attention"):
        refuse_unsupported(AutoModelForCausalLM._model_mapping[type(config)], config)


def test_layers_are_numbered_among_those_with_keys() -> None:
    model = from_module(hybrid_model("qwen3_5_text"))
    assert model.facts.layer_kinds == ["state", "state", "keys", "state", "keys"]
    assert model.facts.num_layers == len(model.layer_shapes) == len(model.facts.sliding_windows) == 2
    both = from_module(hybrid_model("falcon_h1"))
    assert both.facts.layer_kinds == ["both"] * 3 and both.facts.num_layers == 3


def test_the_size_of_a_state_is_what_the_formula_says() -> None:
    """Three layers have 4 heads of 8 by 8 numbers, and 4 inputs of a convolution over 2 · 2 · 8 + 4 · 8 channels."""
    model = from_module(hybrid_model("qwen3_5_text"))
    assert model.facts.state_bytes == 3 * (4 * 8 * 8 + 4 * (2 * 2 * 8 + 4 * 8)) * 4


def test_a_family_that_goes_on_with_single_tokens_only_is_served_so() -> None:
    """Mamba's first form forgets its state in a chunk of several tokens; its chunks are computed one by one."""
    assert from_module(hybrid_model("jamba")).states.one_by_one  # type: ignore[union-attr]
    assert not from_module(hybrid_model("bamba")).states.one_by_one  # type: ignore[union-attr]


def test_a_model_without_states_is_unchanged() -> None:
    from tests.causal_types import causal_model

    model = from_module(causal_model(causal_config("llama")))
    assert model.states is None and model.plain.rounding is None and model.facts.layer_kinds == []
