"""Multi-head latent attention: operations and bytes of a step, by hand and by counting."""

import numpy as np
import pytest
from msgspec.structs import replace

from engine.accounting.memory import kv_bytes_per_token, stored_bytes_per_token
from engine.accounting.mla import absorbed_flops, expanded_flops, expansion_flops
from engine.accounting.presets import ModelPreset, model_presets, presets
from engine.accounting.roofline_steps import Roof, StepTimes
from engine.accounting.sources import FigureSource
from engine.accounting.work import StepWork
from engine.trace.records import BatchEntry

# 2 layers of width 8 and 2 heads. A head's key has 4 numbers and 2 of the rotated key, its value has 3. A layer caches
# 5 numbers per token: 3 of the latent vector and 2 of the rotated key. Of 500 parameters, 340 are in the layers.
SMALL = ModelPreset(
    id="m", name="M", sources=(FigureSource(says="this test"),), num_params=500, num_layers=2, latent_dim=5, rope_dim=2,
    head_dim=6, value_dim=3, num_heads=2, hidden_size=8, vocab_size=10, max_position=4096,
)  # fmt: skip
DEEPSEEK = next(one for one in model_presets() if one.id == "deepseek-v3")


def entry(start: int, count: int) -> BatchEntry:
    return BatchEntry(
        seq_id=0, phase="prefill" if count > 1 else "decode", start=start, token_ids=[1] * count,
        context_len=start + count, samples=True,
    )  # fmt: skip


def test_a_decode_step_reads_one_latent_vector_per_key_for_all_heads() -> None:
    """Position 9 attends to 10 keys in 2 layers of 2 heads: a score multiplies 5 numbers, the weighted sum adds 3."""
    work = StepWork(SMALL).of([entry(9, 1)])
    assert work.flops == 2 * 340 + 2 * 10 * 8 + 2 * (2 * 2 * (5 + 3) * 10)
    assert work.kv_read_bytes == 2 * 10 * 5 * 2 and work.kv_write_bytes == 2 * 5 * 2, "layers, keys, numbers, bytes"


def test_prefill_attends_per_head_and_a_chunk_expands_cached_vectors() -> None:
    """The 4 tokens attend to 1 + 2 + 3 + 4 keys of 6 + 3 numbers. After 7 cached tokens they attend to 28 more, and 7
    vectors are expanded.
    """
    prefill, chunk = StepWork(SMALL).of([entry(0, 4)]), StepWork(SMALL).of([entry(7, 4)])
    assert prefill.flops == 2 * 340 * 4 + 2 * 10 * 8 + 2 * (2 * 2 * (6 + 3) * 10)
    assert chunk.flops - prefill.flops == 2 * (2 * 2 * (6 + 3) * 28) + 2 * 7 * (2 * 3 * 2 * (4 + 3))
    assert (prefill.kv_read_bytes, chunk.kv_read_bytes) == (2 * 4 * 5 * 2, 2 * 11 * 5 * 2)


def test_absorbed_and_expanded_attention_give_equal_results_and_the_counted_flops() -> None:
    """Both variants are computed, and their operations are counted product by product."""
    heads, content, rope, nope, value, keys = 2, 3, 2, 4, 3, 10
    random = np.random.default_rng(1)
    latents, shared = random.normal(size=(keys, content)), random.normal(size=(keys, rope))
    up_k, up_v = random.normal(size=(heads, content, nope)), random.normal(size=(heads, content, value))
    query, rotated = random.normal(size=(heads, nope)), random.normal(size=(heads, rope))
    counted = {"expanded": 0, "absorbed": 0}

    def product(subscripts: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        counted[subscripts] += 2 * left.size * (right.shape[1] if right.ndim == 2 else 1)
        found: np.ndarray = left @ right
        return found

    for head in range(heads):
        k, v = (product("expanded", latents, one[head]) for one in (up_k, up_v))
        score = product("expanded", k, query[head]) + product("expanded", shared, rotated[head])
        usual = product("expanded", v.T, np.exp(score))
        inner = product("absorbed", up_k[head], query[head])
        score = product("absorbed", latents, inner) + product("absorbed", shared, rotated[head])
        summed = product("absorbed", latents.T, np.exp(score))
        assert product("absorbed", up_v[head].T, summed) == pytest.approx(usual)
    a_token = 2 * heads * content * (nope + value)  # by the parameters of the two matrices
    assert counted["absorbed"] == a_token + keys * absorbed_flops(SMALL).value
    assert counted["expanded"] == keys * (expansion_flops(SMALL) + expanded_flops(SMALL).value)
    assert expansion_flops(SMALL) == a_token


def test_deepseek_v3_decode_is_compute_bound_on_an_a100_and_not_on_an_h100() -> None:
    """A layer caches 576 numbers of two bytes per key. With many keys, decode approaches 2 · 128 · 1088 operations per
    1152 bytes, or 241.8 per byte: above the ridge of an A100 and below that of an H100.
    """
    assert DEEPSEEK.is_counted and DEEPSEEK.expanded_dim == 128 * (128 + 64 + 128)
    assert kv_bytes_per_token(DEEPSEEK) == DEEPSEEK.kv_bytes_per_token == 61 * 576 * 2
    assert stored_bytes_per_token(DEEPSEEK, "int8") == 61 * (576 + 2)
    known = presets().gpus
    cards = [known[id] for id in ("a100-80gb", "h100-80gb")]
    roofs = [Roof(flops_per_second=one.fp16_flops_per_second, bytes_per_second=one.bytes_per_second, source="")
             for one in cards]  # fmt: skip
    a100, h100 = (StepTimes(DEEPSEEK, roof) for roof in roofs)
    assert h100.crossing(1 << 20).limit.value == pytest.approx(2 * 128 * 1088 / 1152, rel=0.01)
    assert a100.crossing(100_000).batch is not None and h100.crossing(100_000).batch is None


def test_latent_models_are_not_simulated() -> None:
    """Simulated steps count keys and values by heads."""
    known = presets()
    layer = replace(known.layers[0], model="m")
    assert known._replace(models={"m": SMALL}, layers=(layer,)).timed_models == []
    heads = replace(SMALL, latent_dim=0, rope_dim=0, num_kv_heads=2)
    assert known._replace(models={"m": heads}, layers=(layer,)).timed_models == [heads]
