"""Division of heads among the GPUs of a tensor-parallel group."""

import pytest

from engine.accounting.impossible import ImpossibleInput
from engine.accounting.layer_bytes import CacheBytes
from engine.accounting.presets import model_presets
from engine.accounting.ranks import ranks_of
from engine.accounting.size import Cost, Load, Stored

MODELS = {preset.id: preset.architecture for preset in model_presets()}


def test_two_gpus_divide_query_and_kv_heads() -> None:
    found = ranks_of(MODELS["llama-3.1-8b"], 2)
    assert found.queries == [(0, 16), (16, 16)]
    assert [(one.held, one.copies) for one in found.kinds] == [([(0, 4), (4, 4)], 1)]


def test_kv_heads_are_repeated_on_more_gpus_and_latent_vectors_on_all() -> None:
    repeated = ranks_of(MODELS["llama-3.1-8b"], 16).kinds[0]
    assert repeated.copies == 2 and repeated.held == [(rank // 2, 1) for rank in range(16)]
    latent = ranks_of(MODELS["deepseek-v3"], 8).kinds[0]
    assert latent.held is None and latent.copies == 8


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("gpus", [1, 2, 4, 8, 16])
def test_heads_and_bytes_agree_for_every_preset(name: str, gpus: int) -> None:
    """Every head is on a GPU together with its KV head, and the bytes are those of the GPU's heads."""
    model = MODELS[name]
    try:
        Cost(model, Stored(), Load(tensor_parallel=gpus))
    except ImpossibleInput:
        return
    found = ranks_of(model, gpus)
    assert sum(count for _, count in found.queries) == model.num_heads
    shapes = [shape for shape in model.shapes if not shape.state]
    for kind, shape in zip(found.kinds, shapes, strict=True):
        if kind.held is None:
            continue
        heads = [head for first, count in kind.held for head in range(first, first + count)]
        assert set(heads) == set(range(kind.num_heads)) and len(heads) == kind.copies * kind.num_heads
        group = model.num_heads // kind.num_heads
        for (first, count), (own, held) in zip(found.queries, kind.held, strict=True):
            assert {query // group for query in range(first, first + count)} == set(range(own, own + held))
        part = next(one for one in CacheBytes([shape], 2, 0, gpus).parts)
        assert part.number.value == kind.num_layers * kind.held[0][1] * (shape.head_dim + shape.v_head_dim) * 2
