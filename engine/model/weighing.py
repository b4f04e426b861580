"""Memory of the weights of a loaded model, and of a model that is not loaded yet."""

from __future__ import annotations

from typing import Any

from engine.model.loader import resolve_device, resolve_dtype
from engine.model.model_files import model_files
from engine.model.packed_place import plain_parts
from engine.model.shipped import BUNDLED
from engine.model.stored_weights import loaded_bytes, stored_weights


def weight_bytes(module: Any) -> int:
    """Return the size in bytes of a module's parameters and buffers; shared storage counts once."""
    tensors = [part for t in (*module.parameters(), *module.buffers()) for part in plain_parts(t)]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def estimated_weight_bytes(name_or_path: str | None, dtype: str = "auto", device: str = "auto") -> int:
    """Return the size in bytes of the weights that `load_model` would load; only the configuration is read.

    Raises:
        ModelError: there is no such model or device, the model or its stored form is not supported, or the dtype is
            unknown.
    """
    target = resolve_device(device)
    load_dtype = resolve_dtype(dtype, target)
    files = model_files(name_or_path or BUNDLED)
    config = files.config()
    stored = stored_weights(files, config, load_dtype, dtype, target)
    return stored.taken_bytes if stored else loaded_bytes(config, load_dtype, dtype, target)
