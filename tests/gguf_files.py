"""GGUF files of small random models, written with the package gguf in the format of llama.cpp's converters."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from gguf.quants import dequantize, quantize

from engine.bench.peers.foreign.gguf_file import add_facts, add_weights, finish
from tests.tiny_models import byte_level_tokenizer, tiny_model

TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
FIRST_UNUSED = 257
Q8_0 = GGMLQuantizationType.Q8_0
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "vocab_size": 288,
}  # row lengths are multiples of 32, the block of Q8_0
HEADS: dict[str, dict[str, Any]] = {
    "llama": {"head_dim": 16},
    "qwen2": {},
    "qwen3": {"head_dim": 128},
}  # head sizes that transformers assumes on reading the file


def write(family: str, file: Path, is_quantized: bool) -> Any:
    """Write a random model of a family; return a transformers model with the weights of the file."""
    model = tiny_model(family, **SIZES, **HEADS[family], eos_token_id=256)
    config, writer = model.config.to_dict(), GGUFWriter(file, family)
    add_facts(writer, config | HEADS[family])
    _add_tokenizer(writer, config["vocab_size"])
    weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
    if is_quantized:
        add_weights(writer, config, iter(weights.items()), _quantized)
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.data = torch.from_numpy(
                    dequantize(quantize(weight.detach().numpy(), Q8_0), Q8_0).astype(np.float32)
                )
    else:
        add_weights(writer, config, iter(weights.items()))
    finish(writer)
    return model


def _quantized(weight: np.ndarray) -> tuple[np.ndarray, GGMLQuantizationType | None]:
    return (quantize(weight, Q8_0), Q8_0) if weight.ndim > 1 else (weight, None)


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
    writer.add_token_merges(["t h", "z h"])  # older versions of transformers read a single merge as a string
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(256)
    writer.add_chat_template(TEMPLATE)
