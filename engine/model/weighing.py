"""What a model's weights take in memory: of one that is there, and of one that is not read yet."""

from __future__ import annotations

from typing import Any

from engine.model.loader import resolve_device, resolve_dtype
from engine.model.model_files import model_files
from engine.model.packed_place import plain_parts
from engine.model.shipped import BUNDLED
from engine.model.stored_weights import loaded_bytes, stored_weights


def weight_bytes(module: Any) -> int:
    """Bytes of the parameters and buffers of a module; what several of them share counts once."""
    tensors = [part for t in (*module.parameters(), *module.buffers()) for part in plain_parts(t)]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def bytes_to_come(name_or_path: str | None, dtype: str = "auto", device: str = "auto") -> int:
    """Bytes that the weights of a model will take when `load_model` is given the same; only its configuration is read.

    Raises:
        ModelError: no such model, an unsupported family or stored form, an unknown dtype, or no such device.
    """
    target = resolve_device(device)
    wanted = resolve_dtype(dtype, target)
    files = model_files(name_or_path or BUNDLED)
    config = files.config()
    stored = stored_weights(files, config, wanted, dtype, target)
    return stored.taken_bytes if stored else loaded_bytes(config, wanted, dtype, target)
