"""Conversion of Hugging Face models to GGUF files for llama.cpp. Requires only the packages gguf and numpy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter, get_tensor_name_map

ARCHITECTURES = {"llama": MODEL_ARCH.LLAMA, "qwen2": MODEL_ARCH.QWEN2, "qwen3": MODEL_ARCH.QWEN3}
HEADS = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
STORED = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # dtypes of safetensors

Array = np.ndarray[Any, Any]


def convert(folder: Path, file: Path) -> None:
    """Write the model of `folder` (config.json, safetensors) to `file` in float32, without a vocabulary.

    Raises:
        ValueError: the model type is not supported.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config["model_type"] not in ARCHITECTURES:
        raise ValueError(f"{config['model_type']} cannot be converted to GGUF, only {', '.join(ARCHITECTURES)}")
    writer = GGUFWriter(file, config["model_type"])
    add_facts(writer, config)
    writer.add_tokenizer_model("no_vocab")
    add_weights(writer, config, weights_of(folder))
    finish(writer)


def add_facts(writer: GGUFWriter, config: dict[str, Any]) -> None:
    """Add the model's dimensions from its config.json."""
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def add_weights(
    writer: GGUFWriter,
    config: dict[str, Any],
    weights: Iterator[tuple[str, Array]],
    stored: Callable[[Array], tuple[Array, Any]] = lambda weight: (weight, None),
) -> None:
    """Add weights by their names in transformers. `stored` returns the array to write, and its GGML type."""
    names = get_tensor_name_map(ARCHITECTURES[config["model_type"]], config["num_hidden_layers"])
    for name, weight in weights:
        stem, _, kind = name.rpartition(".")
        array, dtype = stored(_paired(name, weight, config))
        writer.add_tensor(f"{names.get_name(stem)}.{kind}", array, raw_dtype=dtype)


def finish(writer: GGUFWriter) -> None:
    """Write all parts of the file and close it."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def weights_of(folder: Path) -> Iterator[tuple[str, Array]]:
    """Yield the weights of a folder's safetensors files in float32. Tied weights are yielded as the embedding only."""
    for file in sorted(folder.glob("*.safetensors")):
        data = np.memmap(file, np.uint8, "r")
        begin = 8 + int(data[:8].view("<u8")[0])
        header = json.loads(data[8:begin].tobytes())
        for name, facts in header.items():
            if name == "__metadata__":
                continue
            start, end = facts["data_offsets"]
            numbers = data[begin + start : begin + end].view(STORED[facts["dtype"]])
            if facts["dtype"] == "BF16":  # the upper half of a float32
                numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
            assert numbers.size == math.prod(facts["shape"])
            yield name, numbers.astype(np.float32).reshape(facts["shape"])


def _paired(name: str, weight: Array, config: dict[str, Any]) -> Array:
    """Reorder rows of Llama's query and key projections: llama.cpp expects rows that RoPE rotates together adjacent."""
    heads = HEADS.get(name.split(".")[-2])
    if config["model_type"] != "llama" or heads is None:
        return weight
    count = config[heads]
    halves = weight.reshape(count, 2, weight.shape[0] // count // 2, *weight.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))
