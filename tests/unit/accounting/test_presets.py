"""Model presets give published figures to the byte."""

from typing import Any

import pytest
from msgspec.structs import replace

from engine.accounting.as_model import Fit, fit, preset_payload
from engine.accounting.presets import gpu_presets, model_presets
from engine.accounting.token_capacity import room_tokens

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
BY_ID = {preset.id: preset for preset in model_presets()}


@pytest.mark.parametrize(
    ("model", "tokens", "expected"),
    [
        ("gpt2", 1, 36_864),
        ("llama-2-7b", 1, MIB // 2),
        ("llama-2-7b", 10, 5 * MIB),
        ("llama-3.1-8b", 1, 128 * KIB),
        ("opt-13b", 1, 800 * KIB),
        ("opt-66b", 512, 1_207_959_552),
        ("llama-3.1-70b", 1, 320 * KIB),
        ("qwen-72b", 2048, 5 * GIB),
        ("qwen-72b", 32 * 2048, 160 * GIB),
        ("qwen2-72b", 2048, 5 * GIB // 8),
        ("qwen2-72b", 32 * 2048, 20 * GIB),
        ("gpt-3", 16 * 1024, 72 * GIB),
        ("gpt-3", 16 * 32 * 1024, 2304 * GIB),
        ("deepseek-v3", 1, 61 * 576 * 2),
    ],
)
def test_presets_give_the_published_cache_bytes(model: str, tokens: int, expected: int) -> None:
    assert BY_ID[model].kv_bytes_per_token * tokens == expected


def test_a_model_has_heads_or_one_latent_vector() -> None:
    assert len(BY_ID) == len(model_presets())
    for preset in model_presets():
        assert (preset.latent_dim > 0) != (preset.num_kv_heads * preset.head_dim > 0), "heads, or one latent vector"


def test_the_payload_has_source_date_and_derived_bytes_of_each_preset() -> None:
    (first, *_), preset = preset_payload(), model_presets()[0]
    assert first["id"] == preset.id and (first["source"], first["dated"]) == (
        "Radford et al. 2019, table 2: 12 layers, width 768", "2019-02-14"
    )  # fmt: skip
    assert all(one["dated"] for one in preset_payload()), "the page shows the date of publication"
    assert first["kv_bytes_per_token"] == preset.kv_bytes_per_token


def test_the_payload_has_weights_and_the_gpus_that_hold_them() -> None:
    """GPT-3's 326 GiB fit on 8 GPUs of 80 GiB, of which 72 may be used, and not on 4; Llama 2 7B fits on one."""
    by_id = {one["id"]: one for one in preset_payload()}
    gpt3: Any = by_id["gpt-3"]
    assert round(gpt3["weights_bytes"] / GIB) == 326 and (gpt3["fit"]["card"], gpt3["fit"]["gpus"]) == (
        "A100 SXM 80GB", 8
    )  # fmt: skip
    card = next(one for one in gpu_presets() if one.id == "a100-80gb")
    assert gpt3["fit"]["tokens"] == room_tokens(BY_ID["gpt-3"], card, 8)
    small: Any = by_id["llama-2-7b"]
    assert small["fit"]["gpus"] == 1 and 90_000 < small["fit"]["tokens"] < 120_000
    a10 = next(one for one in gpu_presets() if one.id == "a10")
    assert fit(BY_ID["gpt-3"], a10) == Fit(card=a10.name, gpus=32, tokens=room_tokens(BY_ID["gpt-3"], a10, 32))
    assert fit(replace(BY_ID["gpt-3"], num_heads=7, num_kv_heads=7), a10) is None, "7 heads are divided by none of them"
