"""What a model's weights take in memory: of one that is there, and of one that is not read yet."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from engine.model.light_transformers import AutoModelForCausalLM
from engine.model.loader import model_config, resolve_device, resolve_dtype
from engine.model.packed_linears import shares_panels


def weight_bytes(module: Any) -> int:
    """Bytes of the parameters and buffers of a module; what several of them share counts once."""
    tensors = [*module.parameters(), *module.buffers()]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def bytes_to_come(name_or_path: str | None, dtype: str = "auto", device: str = "auto") -> int:
    """Bytes that the weights of a model will take when `load_model` is given the same; only its configuration is read.

    Raises:
        ModelError: no such model, an unsupported family, an unknown dtype, or no such device.
    """
    target = resolve_device(device)
    wanted = resolve_dtype(dtype, target)
    config = model_config(name_or_path)
    with torch.device("meta"):  # shapes without content
        module = AutoModelForCausalLM.from_config(config)
    kind = wanted if isinstance(wanted, torch.dtype) else (config.dtype or torch.float32)
    count = sum(parameter.numel() for parameter in module.parameters())
    if target.type == "cpu" and kind == torch.float32:
        count += _copied(module)
    return int(count * kind.itemsize + sum(b.nbytes for b in module.buffers()))


def _copied(module: Any) -> int:
    """Numbers of the weights that a linear layer will hold in a layout of its own, beside an embedding's."""
    parts = list(module.modules())
    linear = {id(part.weight) for part in parts if type(part) is nn.Linear}
    embeddings = [part for part in parts if isinstance(part, nn.Embedding) and id(part.weight) in linear]
    return sum(part.weight.numel() for part in embeddings if not shares_panels(part))
