"""Storage of published checkpoints: the computed sizes are those of the published files."""

import functools
import json
import time
from typing import Any

import pytest

from app.scale.size import answer
from engine.accounting.checkpoint import read_storage
from engine.accounting.presets import presets
from engine.setup.unloaded_model import architecture_from, architecture_of_config

QWEN = {
    "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "torch_dtype": "bfloat16",
}  # fmt: skip
KIMI = {
    "model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 61, "hidden_size": 7168,
    "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 18432, "vocab_size": 163840,
    "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
    "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "n_group": 1, "topk_group": 1, "tie_word_embeddings": False,
}  # fmt: skip
HYBRID = {
    "model_type": "qwen3_5_text", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 4, "head_dim": 64,
    "num_key_value_heads": 2, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 48, "full_attention_interval": 4,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
}  # fmt: skip
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
EIGHT = {"num_bits": 8, "type": "float", "strategy": "tensor"}


def packed(*ignore: str, **weights: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"type": "int", "symmetric": True, **weights}}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": list(ignore)}


def sizes(config: dict[str, Any], **query: str) -> dict[str, float]:
    found = answer(query, presets(), architecture_of_config(config, "m"))
    return {one.id: one.value for one in found["sizes"]}


@functools.cache
def weights(text: str) -> float:
    return sizes(json.loads(text))["weights"]


@pytest.mark.parametrize(
    ("config", "quantization", "gigabytes"),
    [
        ({"model_type": "deepseek_v3"}, FP8, 673.0),
        (QWEN, {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, 5.57),
        (QWEN, {"quant_method": "gptq", "bits": 8, "group_size": 128, "sym": True}, 8.86),
        (QWEN, packed("lm_head", num_bits=8, type="float", strategy="channel"), 8.71),
        (
            KIMI,
            packed(
                "lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
                num_bits=4, group_size=32, strategy="group",
            ),
            594,
        ),
        (
            {"model_type": "gpt_oss"},
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.embed_tokens"]},
            65.3,
        ),
    ],
    ids=["deepseek-v3", "awq", "gptq", "fp8-channels", "kimi-k2-thinking", "gpt-oss-120b"],
)  # fmt: skip
def test_computed_weight_sizes_equal_the_published_files(
    config: dict[str, Any], quantization: dict[str, Any], gigabytes: float
) -> None:
    assert weights(json.dumps({**config, "quantization_config": quantization})) / 1e9 == pytest.approx(
        gigabytes, rel=0.004
    )


@pytest.mark.parametrize(("preset", "family", "quantization"), [
    ("deepseek-v3", "deepseek_v3", FP8), ("gpt-oss-120b", "gpt_oss", {"quant_method": "mxfp4"}),
])  # fmt: skip
def test_a_preset_and_the_configuration_of_the_same_model_agree(
    preset: str, family: str, quantization: dict[str, Any]
) -> None:
    found = answer({"model": preset}, presets())
    known = next(one.value for one in found["sizes"] if one.id == "weights")
    config = {"model_type": family, "quantization_config": quantization}
    assert weights(json.dumps(config)) == pytest.approx(known, rel=0.001)


@pytest.mark.parametrize("ignored", ["model.layers.0.mlp.down_proj", "layers.0.mlp.down_proj", "re:.*0.mlp.down_.*"])
def test_layers_excluded_from_quantization_take_16_bits(ignored: str) -> None:
    small = {**QWEN, "num_hidden_layers": 2}
    every = sizes({**small, "quantization_config": {"quant_method": "fp8"}})["weights"]
    some = sizes({**small, "quantization_config": {"quant_method": "fp8", "ignored_layers": [ignored]}})["weights"]
    assert some - every == 3584 * 18944


def test_a_requested_dtype_overrides_the_checkpoints() -> None:
    small = {**QWEN, "num_hidden_layers": 2}
    assert sizes({**small, "quantization_config": FP8}, dtype="float16") == sizes(small)
    assert sizes({**small, "torch_dtype": "float32"})["weights"] == 2 * sizes(small)["weights"]


@pytest.mark.parametrize(
    "quantization",
    [
        {**packed(num_bits=8), "kv_cache_scheme": EIGHT},
        {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": EIGHT},
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"},
        {"quant_method": "modelopt", "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}},
    ],
)
def test_an_8_bit_kv_cache_scheme_halves_the_cache_unless_a_dtype_is_requested(quantization: dict[str, Any]) -> None:
    small = {**QWEN, "num_hidden_layers": 2}
    found = {**small, "quantization_config": quantization}
    assert 2 * sizes(found)["kv_token"] == sizes(small)["kv_token"] == sizes(found, kv_dtype="float16")["kv_token"]


def test_unknown_families_have_the_layout_of_their_architecture() -> None:
    """Kimi K2 has DeepSeek-V3's layout under its own name."""
    found, plain = architecture_of_config(KIMI, "m"), architecture_of_config({**KIMI, "model_type": "deepseek_v3"}, "m")
    assert found == plain and sizes(KIMI)["kv_token"] == 61 * 576 * 2
    assert round(found.num_params / 1e12, 2) == 1.03


@pytest.mark.parametrize("field", ["mamba_ssm_dtype", "mamba_ssm_cache_dtype"])
def test_a_float32_recurrent_state_takes_4_bytes_per_element(field: str) -> None:
    """The inputs of its convolution stay in 16 bits."""
    matrices, inputs = 48 * 128 * 128, (2 * 16 * 128 + 48 * 128) * 4
    assert sizes({**HYBRID, field: "float32"})["kv_state"] == 3 * (4 * matrices + 2 * inputs)
    assert sizes({**HYBRID, field: "bfloat16"})["kv_state"] == 3 * 2 * (matrices + inputs)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"quantization_config": {"quant_method": "hqq", "nbits": 3}}, "quant_method 'hqq'"),
        ({"quantization_config": {}}, "quantization_config of"),
        ({"quantization_config": {"quant_method": "awq", "bits": "four"}}, "quant_method 'awq'"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 0}}, "quant_method 'gptq'"),
        ({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": [1]}}, "compressed-tensors"),
        ({"quantization_config": packed("re:(a*)*b", num_bits=8)}, "re:(a*)*b"),
        ({"quantization_config": packed("re:(", num_bits=8)}, "re:("),
        ({"quantization_config": {**FP8, "kv_cache_scheme": {"num_bits": 3}}}, "kv_cache_scheme"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*": {}}}}, "dynamic"),
        ({"torch_dtype": "float7"}, "dtype = 'float7'"),
        ({"mamba_ssm_dtype": "float8"}, "mamba_ssm_dtype = 'float8'"),
    ],
)
def test_unread_fields_that_change_a_size_are_reported(more: dict[str, Any], named: str) -> None:
    found = answer({}, presets(), architecture_from(json.dumps({**QWEN, "num_hidden_layers": 1, **more}).encode(), "m"))
    assert [named in one for one in found["model"]["unread"]] == [True]


def test_regular_expressions_of_a_hostile_file_are_matched_in_bounded_time() -> None:
    names = ["re:" + ".*a?a?" * 40 + "b", *(f"re:.*{i}.*a.*a.*a.*a.*z" for i in range(5000)), "x*" * 100]
    config = {**QWEN, "quantization_config": packed(*names, num_bits=8)}
    began = time.process_time()
    architecture_of_config(config, "m")
    assert time.process_time() - began < 5
    assert read_storage(config).unread
