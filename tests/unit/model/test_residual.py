"""Residual stream of a layer: its parts, and predictions through the model's head (the lens)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from engine.accounting.work import StepWork, layer_flops
from engine.cache.attention_span import WindowPolicy
from engine.cache.forget_settings import ForgetSettings
from engine.model.forgetting.forgetting import Forgetting, ReplayedForgetting
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module
from engine.model.recompute import RecomputeError, recompute_sequence
from engine.trace.operations import Forget
from engine.trace.records import BatchEntry
from engine.trace.residual import ResidualStream
from tests.causal_types import causal_config, causal_model
from tests.hybrid_types import hybrid_model
from tests.parity.harness import eager_forward
from tests.tiny_models import tiny_model
from tests.unit.engine.runs import PROMPTS

TOKENS = PROMPTS[0]


def stream_of(model: LoadedModel, layer: int) -> ResidualStream:
    found = recompute_sequence(model, 0, TOKENS, layer, [0], residual=1).residual
    assert found is not None
    return found


# OLMo 2 and Gemma 2 normalize the output of a block, GPT-NeoX's blocks are parallel, and OPT has no MLP module
@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "olmo2", "gpt_neox", "opt", "qwen3_moe"])
def test_the_parts_of_a_layer_add_up_to_the_models_hidden_states(family: str) -> None:
    module = tiny_model(family)
    expected = eager_forward(module, TOKENS)
    states = [state[0, -1].numpy() for state in expected.hidden_states]
    model = from_module(module)
    for layer in range(model.facts.num_layers):
        stream = stream_of(model, layer)
        parts = stream.vectors
        assert (stream.position, stream.layer, stream.is_parallel) == (len(TOKENS) - 1, layer, family == "gpt_neox")
        np.testing.assert_allclose(parts["embedding"], states[0], atol=1e-5)
        np.testing.assert_allclose(parts["before"], states[layer], atol=1e-5)
        if layer + 1 < model.facts.num_layers:  # transformers normalizes the last one
            np.testing.assert_allclose(parts["after"], states[layer + 1], atol=1e-4)
        np.testing.assert_allclose(parts["before"] + parts["attention"], parts["between"], atol=1e-5)
        np.testing.assert_allclose(parts["between"] + parts["ffn"], parts["after"], atol=1e-4)
        names = ("before", "attention", "between", "ffn", "after")
        assert stream.norms[layer] == pytest.approx([np.linalg.norm(parts[name]) for name in names], rel=1e-5)
        assert len(stream.missing) == ("hidden" not in parts) == (family == "qwen3_moe")
    topk = expected.logits[0, -1].log_softmax(-1).topk(3)
    assert len(stream.lens) == model.facts.num_layers + 1
    assert [one.token_id for one in stream.lens[-1]] == topk.indices.tolist()
    assert [one.logprob for one in stream.lens[-1]] == pytest.approx(topk.values.tolist(), abs=1e-4)


@pytest.mark.parametrize("family", ["llama", "minicpm3"])
def test_only_scaled_blocks_get_a_factor(family: str) -> None:
    """Half precision rounds the sum, and a factor fitted to the rounded sum would change the block's output."""
    module = causal_model(causal_config(family, tie_word_embeddings=False)).to(torch.bfloat16)
    factor = getattr(module.model.layers[0], "residual_scale", 1)
    returned: list[np.ndarray[Any, Any]] = []
    with torch.no_grad():
        for layer in module.model.layers:
            layer.self_attn.o_proj.register_forward_hook(lambda *of: returned.append(row(of[2]).numpy()))
        for block in (module.model.layers[1].self_attn.o_proj, module.model.layers[1].mlp.down_proj):
            block.weight *= 1e-3  # the layer's output is below the tolerance of the sum
    model = from_module(module)
    for layer in range(model.facts.num_layers):
        returned.clear()
        attention = stream_of(model, layer).vectors["attention"]
        np.testing.assert_allclose(attention, factor * returned[layer], rtol=0 if factor == 1 else 0.01)


def test_the_lens_is_empty_if_layers_are_not_found() -> None:
    """LongCat counts two attentions in each of its layers."""
    stream = stream_of(from_module(causal_model(causal_config("longcat_flash"))), 0)
    assert stream.lens == [] and "head" in stream.missing


def row(output: torch.Tensor) -> torch.Tensor:
    """Return the row of the last token."""
    return output.reshape(-1, output.shape[-1])[-1].float()


def test_the_lens_of_a_layer_is_norm_and_head_of_its_residual() -> None:
    module = tiny_model("llama")
    state = eager_forward(module, TOKENS).hidden_states[2][0, -1]
    with torch.inference_mode():
        topk = module.lm_head(module.model.norm(state)).log_softmax(-1).topk(3)
    lens = stream_of(from_module(module), 0).lens[2]
    assert [(one.token_id, pytest.approx(one.logprob, abs=1e-4)) for one in lens] == list(
        zip(topk.indices.tolist(), topk.values.tolist(), strict=True)
    )


@pytest.mark.parametrize("family", ["llama", "gemma2", "minicpm3", "gpt2"])
def test_the_last_layers_lens_is_the_models_prediction_at_every_position(family: str) -> None:
    """Gemma 2 caps its logits, and MiniCPM 3 multiplies them by a constant."""
    module = causal_model(causal_config(family)) if family == "minicpm3" else tiny_model(family)
    topk = eager_forward(module, TOKENS).logits[0].float().log_softmax(-1).topk(3)
    model = from_module(module)
    for count in (1, 3, len(TOKENS), len(TOKENS) + 5):
        found = recompute_sequence(model, 0, TOKENS, model.facts.num_layers - 1, [0], residual=count).residual
        assert found is not None and len(found.layer_lens) == min(count, len(TOKENS))
        for top, ids, logprobs in zip(found.layer_lens, topk.indices[-count:], topk.values[-count:], strict=True):
            assert [one.token_id for one in top] == ids.tolist()
            assert [one.logprob for one in top] == pytest.approx(logprobs.tolist(), abs=1e-4)


def test_the_hidden_activation_is_the_input_of_the_down_projection() -> None:
    model = from_module(tiny_model("llama"))
    parts = stream_of(model, 1).vectors
    mlp = model.module.model.layers[1].mlp
    with torch.inference_mode():
        read = torch.from_numpy(parts["ffn_in"])
        hidden = mlp.act_fn(mlp.gate_proj(read)) * mlp.up_proj(read)
        np.testing.assert_allclose(parts["hidden"], hidden.numpy(), atol=1e-5)
        np.testing.assert_allclose(parts["ffn"], mlp.down_proj(hidden).numpy(), atol=1e-4)


def test_a_layer_with_a_post_norm_has_a_lens_and_no_parts() -> None:
    stream = stream_of(from_module(tiny_model("opt", do_layer_norm_before=False)), 1)
    assert "before" in stream.vectors and "attention" not in stream.vectors
    assert stream.missing == ["apart"]
    assert len(stream.lens) == 4


def test_hooks_are_removed_after_the_pass() -> None:
    model = from_module(tiny_model("llama"))
    stream_of(model, 0)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.module.modules())


def test_several_layers_and_recurrent_states_are_refused() -> None:
    with pytest.raises(RecomputeError, match="one layer"):
        recompute_sequence(from_module(tiny_model("llama")), 0, TOKENS, None, [0], residual=1)
    with pytest.raises(RecomputeError, match="without recurrent states"):
        recompute_sequence(from_module(hybrid_model("jamba")), 0, TOKENS, 0, [0], residual=1)


def num_keys(model: LoadedModel, layer: int, **more: Any) -> int:
    return recompute_sequence(model, 0, TOKENS, layer, [0], **more).num_keys


def test_flops_of_all_layers_sum_to_those_of_the_step() -> None:
    start, count = len(TOKENS) - 1, len(TOKENS)
    for family in ("llama", "mistral", "deepseek_v3"):
        model = from_module(tiny_model(family))
        facts = model.facts
        step = BatchEntry(seq_id=0, phase="decode", start=start, token_ids=TOKENS[-1:], context_len=count, samples=True)
        layers = [layer_flops(facts, layer, num_keys(model, layer)) for layer in range(facts.num_layers)]
        total = sum(map(sum, layers)) + 2 * facts.vocab_size * facts.hidden_size
        assert abs(StepWork(facts).of([step]).flops - total) <= 2 * facts.num_layers  # the average layer is rounded


def test_num_keys_counts_the_keys_with_weight_for_the_last_query() -> None:
    """A window policy narrows the model's windows, or the heads have forgotten different tokens."""
    model = from_module(tiny_model("gemma2"))  # windows of 5 keys in two layers of three
    forgetting = Forgetting(ForgetSettings("h2o", 9), model)
    full = model.facts.sliding_windows.index(None)
    dropped, scores = [[1, 2, 3], [2]], [[0.3, 0.2, 0.1], [0.1]]
    op = Forget(seq_id=0, layer=full, at=9, positions=dropped, scores=scores, ranks=dropped, lowest_kept=[None, None])
    for more in ({}, {"policy": WindowPolicy(4, 2)}, {"forgetting": ReplayedForgetting(0, [op], forgetting)}):
        for layer in range(model.facts.num_layers):
            [arrays] = recompute_sequence(model, 0, TOKENS, layer, None, **more).layers
            assert num_keys(model, layer, **more) == np.count_nonzero(arrays.rows[0].weights[:, -1])
    assert num_keys(model, full, **more) == 4 * len(TOKENS) - 2 * 3 - 2 * 1
