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

# 2 layers, width 8, 2 heads whose keys have 4 numbers and the 2 of the rotated key, and whose values have 3; a layer
# keeps 5 numbers of a token: 3 of keys and values compressed, and the rotated key. 500 parameters, 340 of the layers.
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


def test_a_decode_step_reads_one_vector_a_key_for_all_heads() -> None:
    """Position 9 sees 10 keys: each of 2 heads multiplies 5 numbers for a score and adds 3 for the sum, in 2 layers."""
    work = StepWork(SMALL).of([entry(9, 1)])
    assert work.flops == 2 * 340 + 2 * 10 * 8 + 2 * (2 * 2 * (5 + 3) * 10)
    assert work.kv_read_bytes == 2 * 10 * 5 * 2 and work.kv_write_bytes == 2 * 5 * 2, "layers, keys, numbers, bytes"


def test_prefill_attends_by_heads_and_a_chunk_expands_what_was_kept_again() -> None:
    """The 4 tokens see 1 + 2 + 3 + 4 keys of 6 + 3 numbers; after 7 others they see 28 more, and 7 vectors are
    expanded.
    """
    whole, chunk = StepWork(SMALL).of([entry(0, 4)]), StepWork(SMALL).of([entry(7, 4)])
    assert whole.flops == 2 * 340 * 4 + 2 * 10 * 8 + 2 * (2 * 2 * (6 + 3) * 10)
    assert chunk.flops - whole.flops == 2 * (2 * 2 * (6 + 3) * 28) + 2 * 7 * (2 * 3 * 2 * (4 + 3))
    assert (whole.kv_read_bytes, chunk.kv_read_bytes) == (2 * 4 * 5 * 2, 2 * 11 * 5 * 2)


def test_absorbing_the_matrices_gives_the_same_attention_and_no_more_parameters() -> None:
    """Both ways are computed with numbers, and operations counted by product: those of no parameter are `mla.py`'s."""
    heads, content, rope, nope, value, keys = 2, 3, 2, 4, 3, 10
    random = np.random.default_rng(1)
    kept, shared = random.normal(size=(keys, content)), random.normal(size=(keys, rope))
    up_k, up_v = random.normal(size=(heads, content, nope)), random.normal(size=(heads, content, value))
    query, rotated = random.normal(size=(heads, nope)), random.normal(size=(heads, rope))
    counted = {"expanded": 0, "absorbed": 0}

    def product(way: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        counted[way] += 2 * left.size * (right.shape[1] if right.ndim == 2 else 1)
        found: np.ndarray = left @ right
        return found

    for head in range(heads):
        k, v = (product("expanded", kept, one[head]) for one in (up_k, up_v))
        score = product("expanded", k, query[head]) + product("expanded", shared, rotated[head])
        usual = product("expanded", v.T, np.exp(score))
        inner = product("absorbed", up_k[head], query[head])
        score = product("absorbed", kept, inner) + product("absorbed", shared, rotated[head])
        summed = product("absorbed", kept.T, np.exp(score))
        assert product("absorbed", up_v[head].T, summed) == pytest.approx(usual)
    a_token = 2 * heads * content * (nope + value)  # by the parameters of the two matrices
    assert counted["absorbed"] == a_token + keys * absorbed_flops(SMALL).value
    assert counted["expanded"] == keys * (expansion_flops(SMALL) + expanded_flops(SMALL).value)
    assert expansion_flops(SMALL) == a_token


def test_deepseek_v3_under_the_roofs_of_two_cards() -> None:
    """576 numbers a key and layer in two bytes; with ever more keys decode has 2 · 128 · 1088 operations for 1152
    bytes, 241.8 for one: above the ridge of an A100, below that of an H100, where no batch is compute-bound then.
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
