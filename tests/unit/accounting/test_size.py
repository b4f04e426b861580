"""Sizes under a load: figures that are known from elsewhere, and what a GPU holds, worked out by hand."""

from __future__ import annotations

import pytest

from app.scale_size import answer
from engine.accounting.derived import Derived
from engine.accounting.presets import gpu_presets
from engine.accounting.size import KvShape, Load, fits, kv_token, sizes

GIB = 1 << 30


def by_id(numbers: list[Derived]) -> dict[str, float]:
    return {one.id: one.value for one in numbers}


def test_gpt3_is_72_gib_of_cache_beside_326_of_weights_and_not_half() -> None:
    found = by_id(answer({"model": "gpt-3", "batch": "16", "context": "1024"})["sizes"])
    assert found["kv_batch"] == 72 * GIB and round(found["weights"] / GIB) == 326
    assert round(100 * found["kv_share"]) == 22


def test_first_generation_qwen_is_eight_times_qwen2() -> None:
    first = by_id(answer({"model": "qwen-72b", "batch": "32"})["sizes"])
    second = by_id(answer({"model": "qwen2-72b", "batch": "32"})["sizes"])
    assert (first["kv_request"], first["kv_batch"]) == (5 * GIB, 160 * GIB)
    assert (second["kv_request"], second["kv_batch"]) == (5 * GIB / 8, 20 * GIB)
    assert round(first["weights"] / GIB) == 134


def test_int4_is_more_than_a_quarter_for_its_scales_are_stored_too() -> None:
    shape = KvShape(4, 2, 32, 32)
    assert kv_token(shape, 0.5, 4).value == 320 == 0.3125 * kv_token(shape, 2).value


def test_heads_are_divided_and_at_last_repeated_and_a_latent_vector_is_whole_on_each_gpu() -> None:
    shape = KvShape(32, 8, 128, 128)
    assert [kv_token(shape, 2, 0, tp).value for tp in (1, 4, 8, 16)] == [131_072, 32_768, 16_384, 16_384]
    assert kv_token(KvShape(61, latent_dim=576), 2, 0, 8).value == 61 * 576 * 2
    with pytest.raises(ValueError, match="8 KV heads cannot be divided among 3 GPUs"):
        kv_token(shape, 2, 0, 3)


def test_values_of_another_width() -> None:
    assert kv_token(KvShape(2, 4, 12, 6), 4).value == 2 * 4 * 18 * 4
    assert kv_token(KvShape(2, 4, 12, 6), 1, 2).value == 2 * 4 * (18 + 4)


def test_what_a_gpu_holds() -> None:
    """1,000 bytes, 900 of them used, 100 weights, 100 reserved: 700 for blocks of 4 tokens of 2 bytes: 87."""
    load = Load(context=17, max_model_len=50, shared_prefix=9, block_size=4, reserve_bytes=100)
    token = kv_token(KvShape(1, 1, 1, 1), 1)
    weights = sizes(token, 100, 1, load)[3]
    assert by_id(fits(token, weights, 1000, load)) == {
        "kv_room": 700, "blocks": 87, "reserved": 7, "paged": 17, "shared": (87 - 2) // (5 - 2),
    }  # fmt: skip
    assert by_id(fits(token, weights, 200, load)) == {"kv_room": -20}, "the weights do not fit"


def test_an_80_gb_card_is_not_80_gib() -> None:
    card = next(gpu for gpu in gpu_presets() if gpu.id == "a100-80gb")
    assert card.memory_bytes == 80 * 10**9 < 80 * GIB


def test_every_gpu_has_a_source() -> None:
    assert len({gpu.id for gpu in gpu_presets()}) == len(gpu_presets()) > 5
    assert all("data sheet" in gpu.source for gpu in gpu_presets())


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"model": "gpt-9"}, "model 'gpt-9' is unknown"),
        ({"kv_dtype": "int3"}, "kv_dtype 'int3' is unknown"),
        ({"batch": "0"}, "batch is 0"),
        ({"batch": "x"}, "not a number"),
        ({"batch": "9" * 15}, "too large"),
        ({"context": "9000"}, "longer than max_model_len"),
        ({"utilization": "2"}, "gpu_memory_utilization"),
        ({"utilization": "nan"}, "too large"),
        ({"shared_prefix": "2048"}, "not shorter"),
        ({"tensor_parallel": "3"}, "cannot be divided"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(asked: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        answer(asked)
