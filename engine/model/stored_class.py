"""Loads a model's linear layers in the dtype of its checkpoint, until they are packed (`packed_linears`).

transformers reads a checkpoint into one dtype. In float32, the compute dtype, bfloat16 weights would take twice their
file's size. However, if the model's class creates a parameter with another dtype, transformers reads it in that dtype,
as a view of the mapped file if the dtypes are equal.
"""

from __future__ import annotations

from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from engine.model.model_files import ModelFiles, auto_class

HALVES = {"BF16": torch.bfloat16, "F16": torch.float16}  # by the names in safetensors


def stored_class(files: ModelFiles, config: Any) -> Any:
    """Return the class to read a model with, which computes in float32. If the files have half precision, it is a
    subclass that reads linear layers and embeddings in their dtype; the caller must pack or widen them.
    """
    model_class: Any = auto_class(config)._model_mapping[type(config)]
    kinds = _kinds(files)
    if isinstance(model_class, tuple) or len(kinds) != 1 or not kinds <= set(HALVES):
        return auto_class(config)
    dtype = HALVES[kinds.pop()]

    def init(self: Any, *args: Any, **options: Any) -> None:
        model_class.__init__(self, *args, **options)
        self.__class__ = model_class
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                part.weight.data = part.weight.data.to(dtype)

    return type(model_class.__name__, (model_class,), {"__init__": init, "__module__": model_class.__module__})


def _kinds(files: ModelFiles) -> set[str]:
    """Return the dtypes of a model's matrices; empty if it has no weight file."""
    found: set[str] = set()
    for path in filter(None, map(files.beside, files.weight_names())):
        with safe_open(path, framework="pt") as file:
            slices = [file.get_slice(name) for name in file.keys()]  # noqa: SIM118 (it is not a mapping)
            found |= {part.get_dtype() for part in slices if len(part.get_shape()) > 1}
    return found
