"""A head's projection, applied to what attention reads, gives its query, key and value."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.model.loaded import LoadedModel
from engine.model.loader import from_module, load_model
from engine.model.projections import ProjectionError, projection_of
from engine.model.recompute import recompute_sequence
from engine.trace.residual import ProjectionPart
from tests.tiny_models import tiny_model

ONE_TOKEN = [5]  # position 0 is not rotated
PARTS: list[ProjectionPart] = ["q", "k", "v"]


def differences(model: LoadedModel, parts: list[ProjectionPart]) -> list[float]:
    """Return the largest difference between projection and captured vector for each head of all layers."""
    found = []
    for layer in range(model.facts.num_layers):
        done = recompute_sequence(model, 0, ONE_TOKEN, layer, None, residual=1)
        assert done.residual is not None
        reads, arrays = done.residual.vectors["attention_in"], done.layers[0]
        for part in parts:
            captured = {"q": arrays.q, "k": arrays.k, "v": arrays.v}[part][0]
            for head in range(len(captured)):
                weights = projection_of(model, layer, part, head)
                found.append(float(np.abs(weights.weight @ reads + weights.bias - captured[head]).max()))
    return found


@pytest.mark.parametrize("family", ["llama", "llama_mqa", "qwen2", "gpt2", "phi3", "gemma2"])
def test_a_heads_projection_gives_its_captured_vector(family: str) -> None:
    assert max(differences(from_module(tiny_model(family)), PARTS)) < 1e-5


@pytest.mark.parametrize("family", ["qwen3", "olmo2", "opt"])
def test_a_later_norm_or_scale_is_not_part_of_the_projection(family: str) -> None:
    model = from_module(tiny_model(family))
    assert max(differences(model, ["v"])) < 1e-5 < max(differences(model, ["q"]))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16-weights", "int8-weights", "int4-weights"])
def test_projections_are_read_from_every_storage_form(dtype: str) -> None:
    assert max(differences(load_model("bundled", dtype=dtype), ["v"])) < 1e-4


@pytest.mark.parametrize(("family", "part"), [("gpt_neox", "q"), ("deepseek_v3", "k")])
def test_a_layer_without_a_matrix_per_head_is_refused(family: str, part: ProjectionPart) -> None:
    with pytest.raises(ProjectionError, match=f"layer 1 has no separate matrix for a head's {part.upper()}"):
        projection_of(from_module(tiny_model(family)), 1, part, 0)


def test_layers_of_a_hybrid_are_counted_among_those_with_keys() -> None:
    """The rows equal those of the last module with keys, which follows layers without keys."""
    model = load_model("bundled-hybrid")
    last = [module for name, module in model.module.named_modules() if name.endswith("v_proj")][-1]
    weights = projection_of(model, model.facts.num_layers - 1, "v", 0)
    size = model.facts.v_head_dim
    own = last(torch.eye(model.facts.hidden_size, dtype=model.dtype)).T[:size]
    np.testing.assert_allclose(weights.weight, own.detach().numpy(), atol=1e-5)
