"""GGUF files of small random models, written with the package gguf as llama.cpp's converters write them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFWriter, TokenType, get_tensor_name_map
from gguf.quants import dequantize, quantize

from tests.tiny_models import byte_level_tokenizer, tiny_model

ARCHITECTURES = {"llama": MODEL_ARCH.LLAMA, "qwen2": MODEL_ARCH.QWEN2, "qwen3": MODEL_ARCH.QWEN3}
TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
FIRST_UNUSED = 257  # th
Q8_0 = GGMLQuantizationType.Q8_0
SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 288}  # rows of whole blocks of 32
HEADS: dict[str, dict[str, Any]] = {
    "llama": {"head_dim": 16},
    "qwen2": {},
    "qwen3": {"head_dim": 128},
}  # what transformers takes them for


def write(family: str, file: Path, is_quantized: bool) -> Any:
    """Write a random model of a family; return a plain model with the weights that the file has."""
    model = tiny_model(family, **SIZES, **HEADS[family], eos_token_id=256)
    config, writer = model.config, GGUFWriter(file, family)
    width = HEADS[family].get("head_dim", config.hidden_size // config.num_attention_heads)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer, config.vocab_size)
    names = get_tensor_name_map(ARCHITECTURES[family], config.num_hidden_layers)
    plain = {}
    for name, weight in model.state_dict().items():
        numbers = weight.numpy()
        if is_quantized and numbers.ndim > 1:
            blocks = quantize(numbers, Q8_0)
            plain[name] = torch.from_numpy(dequantize(blocks, Q8_0).astype(np.float32))
            stored = quantize(_rotary(name, numbers, model), Q8_0)
            writer.add_tensor(_called(names, name), stored, raw_dtype=Q8_0)
        else:
            writer.add_tensor(_called(names, name), _rotary(name, numbers, model))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model.load_state_dict(plain, strict=False)
    return model


def _called(names: Any, name: str) -> str:
    stem, _, kind = name.rpartition(".")
    return f"{names.get_name(stem)}.{kind}"


def _rotary(name: str, weight: np.ndarray, model: Any) -> np.ndarray:
    """Put paired rows of llama's queries and keys beside each other, as the rotation of llama.cpp takes them."""
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(name.split(".")[-2])
    if model.config.model_type != "llama" or heads is None:
        return weight
    count = getattr(model.config, heads)
    halves = weight.reshape(count, 2, weight.shape[0] // count // 2, *weight.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))


def _add_tokenizer(writer: GGUFWriter, vocab_size: int) -> None:
    described = json.loads(byte_level_tokenizer().backend_tokenizer.to_str())
    tokens = sorted(described["model"]["vocab"], key=described["model"]["vocab"].__getitem__)
    special = [token["content"] for token in described["added_tokens"]]
    unused = ["th", "zh", *(f"[{number}]" for number in range(2, vocab_size - len(tokens) - len(special)))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*tokens, *special, *unused])
    kinds = [TokenType.NORMAL] * len(tokens) + [TokenType.CONTROL] * len(special) + [TokenType.NORMAL] * len(unused)
    writer.add_token_types(kinds)
    writer.add_token_merges(["t h", "z h"])  # a single one is no list to older releases of transformers
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(256)
    writer.add_chat_template(TEMPLATE)
