"""Layers read from a configuration: known shapes, and those of transformers' own caches."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from engine.accounting.architecture import kv_shapes, read_architecture
from engine.accounting.impossible import ImpossibleInput
from engine.accounting.kv_shape import KvShape
from engine.accounting.presets import presets
from engine.setup.unloaded_model import MAX_BYTES, _plain, architecture_from, architecture_of, architecture_of_config
from tests.causal_types import WINDOW, causal_config, causal_model

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip
OPT = {
    "model_type": "opt", "hidden_size": 5120, "word_embed_proj_dim": 5120, "ffn_dim": 20480, "num_hidden_layers": 40,
    "num_attention_heads": 40,
}  # fmt: skip
WHISPER = {
    "model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32, "encoder_attention_heads": 20,
    "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "vocab_size": 51866,
    "num_mel_bins": 128,
}  # fmt: skip
GEMMA = {
    "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208, "sliding_window": 1024,
    "sliding_window_pattern": 6,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "num_params"),
    [
        (LLAMA, 8_030_261_248),
        ({"model_type": "gpt2"}, 124_439_808),
        ({"model_type": "gpt_neox"}, 20_554_567_680),
        ({"model_type": "t5"}, 60_506_624),
        (WHISPER, 1_543_490_560),
        ({"model_type": "mixtral", "sliding_window": None}, 46_702_792_704),
    ],
)
def test_parameter_counts_equal_the_published_checkpoints(config: dict[str, Any], num_params: int) -> None:
    assert architecture_of_config(config, "m").num_params == num_params


@pytest.mark.parametrize(
    ("preset", "config"),
    [
        ("llama-3.1-8b", LLAMA),
        ("gpt2", {"model_type": "gpt2"}),
        ("opt-13b", OPT),
        ("mixtral-8x7b", {"model_type": "mixtral", "sliding_window": None}),
        ("gpt-oss-120b", {"model_type": "gpt_oss"}),
        ("gemma-3-4b", GEMMA),
        ("qwen3-next-80b-a3b", {"model_type": "qwen3_next"}),
        ("whisper-large-v3", WHISPER),
        ("deepseek-v3", {"model_type": "deepseek_v3"}),
    ],
)
def test_presets_equal_the_architecture_read_from_their_configuration(preset: str, config: dict[str, Any]) -> None:
    known, found = presets().models[preset].architecture, architecture_of_config(config, "m")
    assert set(known.shapes) == set(found.shapes)
    assert known.num_params == pytest.approx(found.num_params, rel=0.015), "some are given rounded"
    for name in ("num_heads", "hidden_size", "vocab_size", "expanded_dim"):
        assert getattr(known, name) == getattr(found, name), name


CACHED_FAMILIES = (
    "llama", "qwen3", "gemma2", "gemma3_text", "gpt_oss", "mistral", "cohere2", "gpt_neox", "opt", "phi3", "jamba",
    "bamba", "falcon_h1", "mamba", "mamba2", "qwen3_next", "olmo_hybrid", "gpt_bigcode", "exaone4",
    "granitemoehybrid", "falcon_mamba", "smollm3", "mixtral",
)  # fmt: skip
LONG = 3 * WINDOW
MIXED = ["linear_attention", "full_attention", "linear_attention"]
MAMBA_2 = {"mamba_n_heads": 8, "mamba_d_head": 8}
MORE: dict[str, dict[str, Any]] = {  # layers of both kinds among three, and heads that fit the small width
    "qwen3_next": {"layer_types": MIXED},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "bamba": {**MAMBA_2, "attn_layer_indices": [1]},
    "granitemoehybrid": {**MAMBA_2, "layer_types": MIXED},
    "mamba2": {"num_heads": 8, "head_dim": 8},
}


@pytest.mark.parametrize("family", CACHED_FAMILIES)
def test_counted_cache_bytes_equal_those_of_transformers(family: str) -> None:
    """The sequence is longer than the windows. transformers stores one token less per window than the counted size: the
    keys that the next token sees besides its own.
    """
    config = causal_config(family, **MORE.get(family, {}))
    module = causal_model(config)
    with torch.no_grad():
        output = module(torch.arange(LONG)[None] % 100, use_cache=True)
    expected_size = 0
    for layer in output.get("past_key_values", output.get("cache_params")).layers:
        states = [*vars(layer).get("conv_states", {}).values(), *vars(layer).get("recurrent_states", {}).values()]
        tensors = [getattr(layer, "keys", None), getattr(layer, "values", None), *states]
        expected_size += sum(one.numel() for one in tensors if isinstance(one, torch.Tensor))
    fields = config.to_dict() | {"layer_types": getattr(config, "layer_types", None)}
    counted = 0
    for shape in kv_shapes(fields):
        tokens = 1 if shape.state else min(LONG, shape.window - 1) if shape.window else LONG
        if shape.kind == "latent":  # transformers caches the expanded heads
            architecture = read_architecture(fields, "m", 1)
            counted += shape.num_layers * tokens * architecture.expanded_dim
        else:
            counted += shape.num_layers * tokens * shape.elements
    assert counted == expected_size


def test_windowed_global_and_shared_layers_are_distinguished() -> None:
    config = {
        "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 64, "num_key_value_heads": 2, "head_dim": 16,
        "num_global_key_value_heads": 1, "global_head_dim": 32, "sliding_window": 9, "num_kv_shared_layers": 1,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "full_attention"],
    }  # fmt: skip
    assert kv_shapes(config) == (KvShape(2, 2, 16, 16, window=9), KvShape(1, 1, 32, 32))


def test_an_indexer_adds_its_own_cached_keys() -> None:
    config = {
        "num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 64, "kv_lora_rank": 32, "qk_rope_head_dim": 8,
        "index_head_dim": 16, "layer_types": ["indexed_attention"] * 2,
    }  # fmt: skip
    assert kv_shapes(config) == (KvShape(2, latent_dim=40), KvShape(2, latent_dim=16, role="index"))


def test_a_configuration_is_read_from_a_file_or_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    assert architecture_of(str(folder)).shapes == (KvShape(32, 8, 128, 128),)
    assert architecture_of(str(folder / "config.json")).name == "my-model"
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    assert architecture_of(str(folder)).shipped.each == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"{", "this is not a config.json"),
        (b"[" * 100_000, "this is not a config.json"),
        (b"[1]", "a JSON object"),
        (b"{}", "lacks model_type"),
        (b"x" * (MAX_BYTES + 1), "at most 262144 bytes"),
        (b'{"model_type": "chatglm"}', "does not support the family 'chatglm'"),
        (b'{"model_type": "vit"}', "generates no text"),
        (b'{"model_type": "llama", "num_hidden_layers": 100000}', "num_hidden_layers of the configuration is 100000"),
        (b'{"model_type": "llama", "num_key_value_heads": -1}', "num_key_value_heads of the configuration is -1"),
        (b'{"model_type": "llama", "hidden_size": "wide"}', "."),
        (b'{"model_type": "deepseek_v4"}', "the unsupported kind"),
    ],
)
def test_an_invalid_configuration_is_explained_in_one_sentence(text: bytes, sentence: str) -> None:
    with pytest.raises(ImpossibleInput, match=sentence) as refused:
        architecture_from(text, "m")
    assert refused.value.translations["zh"] and "\n" not in str(refused.value)


def test_settings_that_name_code_or_files_are_ignored() -> None:
    more = {"auto_map": {"AutoConfig": "evil.Evil"}, "quantization_config": {"quant_method": "fp8"}, "_x": "/etc"}
    assert architecture_of_config({**LLAMA, **more}, "m").num_params == 8_030_261_248


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"model_type": "qwen2", "num_hidden_layers": 300_000_000}, "num_hidden_layers of the configuration is 3000"),
        ({"model_type": "llava", "vision_config": {"num_hidden_layers": 200_000}}, "is 200000, but must be"),
        ({"model_type": "t5", "num_layers": 500_000, "num_decoder_layers": 2}, "num_layers of the configuration"),
        ({"model_type": "qwen2_moe", "num_experts": 3_000_000}, "num_experts of the configuration is 3000000"),
        ({"model_type": "llama", "num_hidden_layers": 1e12}, "num_hidden_layers of the configuration"),
        ({"model_type": "rt_detr", "backbone": "some/one", "use_pretrained_backbone": True}, "generates no text"),
    ],
)
def test_excessive_configurations_are_refused_before_anything_is_created(config: dict[str, Any], error: str) -> None:
    """The configuration is refused before a family's code allocates lists and modules of this size or fetches from a
    hub.
    """
    began = time.process_time()
    with pytest.raises(ImpossibleInput, match=error):
        architecture_from(json.dumps(config).encode(), "config.json")
    assert time.process_time() - began < 5  # creating the model would take minutes


def test_a_model_of_too_many_modules_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.setup.unloaded_model.MAX_MODULES", 50)
    with pytest.raises(ImpossibleInput, match="more than 50 modules"):
        architecture_from(b'{"model_type": "llama", "num_hidden_layers": 40}', "config.json")
    monkeypatch.undo()
    assert architecture_from(b'{"model_type": "llama", "num_hidden_layers": 40}', "config.json").num_params > 1


def test_default_configurations_of_all_families_pass_the_limits() -> None:
    """Every count in a family's default configuration, and in each part of it, is accepted."""
    refused = {}
    for family in transformers.CONFIG_MAPPING:
        try:
            fields = json.loads(transformers.CONFIG_MAPPING[family]().to_json_string(use_diff=False))
        except Exception:  # a family without defaults, or one that wants another package
            continue
        try:
            _plain(fields)
        except ImpossibleInput as error:
            refused[family] = str(error)
    assert not refused
