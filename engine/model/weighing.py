"""What a model's weights take in memory: of one that is there, and of one that is not read yet."""

from __future__ import annotations

from typing import Any

import torch

from engine.model.loaded import WEIGHTS
from engine.model.loader import resolve_device, resolve_dtype
from engine.model.model_files import auto_class, model_files
from engine.model.packed_linears import packed_bytes
from engine.model.shipped import BUNDLED


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
    config = model_files(name_or_path or BUNDLED).config()
    with torch.device("meta"):  # shapes without content
        module = auto_class(config).from_config(config)
    kind = wanted if isinstance(wanted, torch.dtype) else (config.dtype or torch.float32)
    taken = sum(parameter.numel() for parameter in module.parameters()) * kind.itemsize
    if target.type == "cpu" and kind == torch.float32:
        of_checkpoint = torch.bfloat16 if config.dtype == torch.bfloat16 else torch.float32
        taken += packed_bytes(module, WEIGHTS.get(dtype, of_checkpoint if dtype == "auto" else torch.float32))
    return int(taken + sum(b.nbytes for b in module.buffers()))
