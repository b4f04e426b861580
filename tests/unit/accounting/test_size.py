"""Sizes under a load: published figures, and the capacity of a GPU, by hand."""

import math
from typing import Any

import pytest

from app.scale.size import answer
from engine.accounting.derived import Derived, Factor
from engine.accounting.impossible import ImpossibleInput
from engine.accounting.kv_shape import Architecture, KvShape
from engine.accounting.layer_bytes import CacheBytes, kv_token
from engine.accounting.presets import gpu_presets, presets
from engine.accounting.size import Cost, Load, Stored
from engine.accounting.weights import WeightStore

GIB = 1 << 30


def by_id(numbers: list[Derived]) -> dict[str, float]:
    return {one.id: one.value for one in numbers}


def answer_of(**options: object) -> dict[str, Any]:
    return answer({name: str(value) for name, value in options.items()}, presets())


def figures_of(found: dict[str, Any]) -> dict[str, float]:
    return {one.kind: one.wrong.value for one in found["mistakes"]}


def test_gpt3_has_72_gib_of_cache_and_326_gib_of_weights() -> None:
    answered = answer_of(model="gpt-3", batch=16, context=1024)
    found = by_id(answered["sizes"])
    assert found["kv_batch"] == 72 * GIB and round(found["weights"] / GIB) == 326
    assert round(100 * found["kv_share"]) == 22
    assert round(figures_of(answered)["half"] / GIB) == 163, "a common mistake"
    assert figures_of(answered)["decimal"] == 72 * 10**9


def test_first_generation_qwen_is_eight_times_qwen2() -> None:
    first_answer, second_answer = answer_of(model="qwen-72b", batch=32), answer_of(model="qwen2-72b", batch=32)
    first, second = by_id(first_answer["sizes"]), by_id(second_answer["sizes"])
    assert (first["kv_request"], first["kv_batch"]) == (5 * GIB, 160 * GIB)
    assert (second["kv_request"], second["kv_batch"]) == (5 * GIB / 8, 20 * GIB)
    assert round(first["weights"] / GIB) == 134
    assert figures_of(second_answer)["generation"] == first["kv_token"]
    assert figures_of(first_answer)["generation"] == 327_680
    assert figures_of(second_answer)["hidden_size"] == 8 * second["kv_token"]
    assert "hidden_size" not in figures_of(first_answer), "the formula is right for multi-head attention"


def test_opt_66b_moves_97_gbit_a_second_at_ten_requests() -> None:
    """A request has 512 tokens of 2.25 MiB. DistServe (arXiv 2401.09670) gives 1.13 GB and 90 Gbit/s."""
    found = answer_of(model="opt-66b", context=512, arrivals=10)
    moved = by_id(found["moved"])
    assert moved["kv_moved"] == 1_207_959_552
    assert moved["kv_rate"] == 12_079_595_520 and moved["kv_bit_rate"] == 96_636_764_160
    links = {link["id"]: link for link in found["links"]}
    xdr = by_id(links["infiniband-xdr"]["numbers"])
    assert xdr["transfer"] == pytest.approx(12.07959552e-3, rel=1e-12)
    assert xdr["link_share"] == pytest.approx(0.1207959552, rel=1e-12)
    nvlink = links["nvlink-3"]
    assert nvlink["wrong"].value == pytest.approx(2.01326592e-3, rel=1e-12), "as with 600 GB/s in one direction"
    assert by_id(nvlink["numbers"])["transfer"] == pytest.approx(2 * 2.01326592e-3, rel=1e-12)


def test_an_int4_cache_with_its_scales_exceeds_a_quarter() -> None:
    shape = KvShape(4, 2, 32, 32)
    assert kv_token(shape, 0.5, 4).value == 320 == 0.3125 * kv_token(shape, 2).value
    assert kv_token(shape, 1, 2).value == 0.53125 * kv_token(shape, 2).value
    found = answer_of(model="llama-2-7b", kv_dtype="int4")
    assert figures_of(found)["quarter"] == 131_072 < by_id(found["sizes"])["kv_token"] == 2 * 32 * 32 * (64 + 4)


def test_latent_vectors_are_counted_instead_of_expanded_heads() -> None:
    found = answer_of(model="deepseek-v3", dtype="bfloat16")
    assert by_id(found["sizes"])["kv_token"] == 61 * 576 * 2
    assert figures_of(found)["heads"] == 61 * 128 * (192 + 128) * 2
    split = answer_of(model="deepseek-v3", tensor_parallel=8)
    assert figures_of(split)["heads"] == 61 * 16 * (192 + 128) * 2, "a GPU has 16 heads and the entire vector"
    assert figures_of(found)["active"] == 74 * 10**9 < by_id(found["sizes"])["weights"] == 1342 * 10**9


def test_int4_weights_with_scales_and_embeddings_exceed_a_quarter() -> None:
    """Llama 3.1 8B has 2 · 128,256 · 4,096 weights of embedding and output in 16 bits. Each 128 other weights share a
    scale of 16 bits. The sum is 5.70 GB; a quarter of 16.06 GB would be 4.02 GB.
    """
    found = answer_of(model="llama-3.1-8b", dtype="int4")
    kept = 2 * 128_256 * 4096
    assert by_id(found["sizes"])["weights"] == math.ceil((8_030_261_248 - kept) * (64 + 2) / 128 + 2 * kept)
    assert figures_of(found)["bits"] == 8_030_261_248 / 2
    assert "bits" not in figures_of(answer_of(model="llama-3.1-8b"))
    tied = by_id(answer_of(model="gemma-3-4b", dtype="int8")["sizes"])["weights"]
    assert tied == 3_880_263_168 + 262_208 * 2560, "the tied matrix has two bytes per weight"


def test_mixed_precision_checkpoints_have_their_published_size() -> None:
    """gpt-oss-120b stores its experts in MXFP4 (OpenAI, arXiv 2508.10925, table 1: 60.8 GiB). DeepSeek-V3 stores all
    weights but the embeddings in FP8, with a float32 scale for each 128 × 128 block.
    """
    weights = by_id(answer_of(model="gpt-oss-120b")["sizes"])["weights"]
    assert weights / GIB == pytest.approx(60.8, abs=0.1)
    kept = 2 * 129_280 * 7168
    of_deepseek = by_id(answer_of(model="deepseek-v3")["sizes"])["weights"]
    assert of_deepseek == math.ceil((671 * 10**9 - kept) * (1 + 4 / 128**2) + 2 * kept)
    assert by_id(answer_of(model="llama-2-7b")["sizes"])["weights"] == 2 * 6_738_415_616


def test_heads_are_divided_among_gpus_and_latent_vectors_are_repeated() -> None:
    shape = KvShape(32, 8, 128, 128)
    assert [kv_token(shape, 2, 0, tp).value for tp in (1, 4, 8, 16)] == [131_072, 32_768, 16_384, 16_384]
    assert kv_token(KvShape(61, latent_dim=576), 2, 0, 8).value == 61 * 576 * 2
    with pytest.raises(ValueError, match="8 KV heads cannot be divided among 3 GPUs"):
        kv_token(shape, 2, 0, 3)


def test_keys_and_values_may_differ_in_width() -> None:
    assert kv_token(KvShape(2, 4, 12, 6), 4).value == 2 * 4 * 18 * 4
    assert kv_token(KvShape(2, 4, 12, 6), 1, 2).value == 2 * 4 * (18 + 4)


def test_windows_bound_the_cached_tokens_and_states_have_constant_size() -> None:
    """Two layers of 2 · 8 bytes per token cache all tokens, and three the newest 5. One layer has a state of 7 bytes,
    and one caches 4 encoder tokens.
    """
    shapes = (
        KvShape(2, 1, 8, 8), KvShape(3, 1, 8, 8, window=5), KvShape(1, state=7), KvShape(1, 1, 8, 8, role="cross"),
    )  # fmt: skip
    kept = CacheBytes(shapes, 1, 0, 1, 1)
    encoder, block = Factor("E", 4, "encoder_tokens"), Factor("S", 4, "block_size")
    tokens = [Factor("T", count, "context") for count in (3, 12)]
    assert kept.token is not None and kept.token.value == 32 + 48
    whole = [kept.at("kv_request", one, encoder).value for one in tokens]
    assert whole == [3 * 80 + 7 + 4 * 16, 12 * 32 + 5 * 48 + 7 + 4 * 16]
    pages = [kept.pages("kv_pages", one, encoder, block).value for one in tokens]
    assert pages == [4 * 80 + 7 + 64, 12 * 32 + 8 * 48 + 7 + 64], "of 12 tokens the newest 5 lie in pages 1 and 2"
    prefix = kept.prefix("kv_prefix", tokens[1], Factor("p", 9, "shared_prefix"), block).value
    assert prefix == 8 * 32 + 4 * 48, "page 0 has left the window"


def test_a_window_holds_the_pages_of_its_tokens() -> None:
    for context in range(1, 40):
        window, size = 9, 4
        kept = CacheBytes((KvShape(1, 1, 1, 1, window=window),), 1)
        none, block = Factor("E", 0, "encoder_tokens"), Factor("S", size, "block_size")
        found = kept.pages("kv_pages", Factor("T", context, "context"), none, block).value
        touched = {position // size for position in range(max(0, context - window), context)}
        assert found == 2 * size * len(touched)


def model(**more: Any) -> Architecture:
    return Architecture(**{"name": "m", "shapes": (KvShape(1, 1, 1, 1),), "num_params": 100, **more})


def test_gpu_capacity_equals_a_hand_calculation() -> None:
    """Weights and reserve take 100 of 900 usable bytes each. The other 700 hold 87 blocks of 4 tokens of 2 bytes."""
    load = Load(context=17, max_model_len=50, shared_prefix=9, block_size=4, reserve_bytes=100)
    cost = Cost(model(), Stored(weights=WeightStore(each=1), element=1), load)
    assert by_id(cost.capacity(1000)) == {
        "kv_room": 700, "kv_piece": 100, "reserved": 7, "kv_pages": 40, "paged": 87 // 5,
        "kv_prefix": 16, "shared": (87 - 2) // (5 - 2),
    }  # fmt: skip
    assert by_id(cost.capacity(200)) == {"kv_room": -20}, "the weights do not fit"


def test_cache_room_is_the_memory_left_by_weights_activations_and_reserve() -> None:
    """For h = 3, f = 5, V = 7 and 11 tokens, the MLP's 11 · (6 + 15) · 2 bytes exceed the 11 · 3 · 2 + 2 · 7 · 6 of the
    logits.
    """
    widths = {"hidden_size": 3, "intermediate_size": 5, "vocab_size": 7}
    load = Load(batch=2, context=10, max_num_batched_tokens=11, reserve_bytes=100)
    cost = Cost(model(**widths), Stored(weights=WeightStore(each=1), element=1), load)
    assert cost.activations is not None and cost.activations.value == 462 > 66 + 84
    assert cost.total.value == 100 + 2 * 10 * 2 + 462 + 100
    assert cost.capacity(1000)[0].value == 900 - 100 - 462 - 100
    few = Load(batch=20, context=10, max_num_batched_tokens=1, reserve_bytes=0)
    wide = Cost(model(**widths), Stored(weights=WeightStore(each=1), element=1), few).activations
    assert wide is not None and wide.value == 6 + 20 * 7 * 6, "logits dominate when few tokens are computed"


def test_gpu_memory_is_what_the_driver_reports() -> None:
    """An A100 of 80 GB reports 80 GiB and an H100 less. A T4 of 16 GB reports 15 GiB, since ECC takes the rest."""
    cards = {gpu.id: gpu for gpu in gpu_presets()}
    assert cards["a100-80gb"].memory_bytes == 80 * 10**9 < 80 * GIB == cards["a100-80gb"].room_bytes
    assert 80 * 10**9 < cards["h100-80gb"].room_bytes == 81_559 * 2**20 < 80 * GIB
    assert cards["t4"].room_bytes == 15 * GIB and cards["v100-32gb"].room_bytes == cards["v100-32gb"].memory_bytes
    for card in cards.values():
        assert 1 <= card.room_bytes / card.memory_bytes < 1.08, f"{card.id}: GB or GiB, with ECC or without"
    room = by_id(next(one for one in answer_of()["gpus"] if one["id"] == "a100-80gb")["numbers"])["kv_room"]
    sizes = by_id(answer_of()["sizes"])
    assert room == int(0.9 * 80 * GIB - sizes["weights"] - sizes["activations"] - GIB)


@pytest.mark.parametrize(
    ("options", "sentence", "chinese"),
    [
        ({"model": "gpt-9"}, "model 'gpt-9' is unknown", "没有名为"),
        ({"kv_dtype": "int3"}, "kv_dtype 'int3' is unknown", "没有名为"),
        ({"batch": "0"}, "batch is 0", "至少要为 1"),
        ({"batch": "x"}, "not a number", "不是数字"),
        ({"batch": "1.5"}, "whole number", "整数"),
        ({"batch": "9" * 15}, "too large", "太大"),
        ({"context": "9000", "max_model_len": "8192"}, "longer than max_model_len", "超过了"),
        ({"utilization": "2"}, "gpu_memory_utilization", "应大于 0"),
        ({"utilization": "nan"}, "too large", "太大"),
        ({"shared_prefix": "2048"}, "must be shorter", "应短于"),
        ({"arrivals": "-1"}, "must not be below 0", "不能小于 0"),
        ({"tensor_parallel": "3"}, "heads of Llama 3.1 8B cannot be divided", "无法平分"),
        ({"model": "llama-3.1-8b", "tensor_parallel": "64"}, "32 heads", "32 个注意力头"),
    ],
)
def test_impossible_sizes_are_refused_in_both_languages(options: dict[str, str], sentence: str, chinese: str) -> None:
    with pytest.raises(ImpossibleInput, match=sentence) as refused:
        answer(options, presets())
    assert chinese in refused.value.translations["zh"]
