"""Loading a model whose linear layers keep the dtype of its checkpoint until they are packed (`packed_linears`).

transformers reads a checkpoint into one dtype: in float32, in which the model computes, bfloat16 weights would take
twice their file's size. It keeps the dtype of a parameter that the model's class made with another one, and reads a
tensor of that dtype as a view of the mapped file.
"""

from __future__ import annotations

from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from engine.model.model_files import ModelFiles, auto_class

HALVES = {"BF16": torch.bfloat16, "F16": torch.float16}  # as in safetensors


def as_stored(files: ModelFiles, config: Any) -> Any:
    """Return the class to read a model of safetensors with, which computes in float32: its own, or one that keeps
    linear layers and embeddings in the half precision of the files. They are to be packed or widened.
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
    """Return the dtypes of a model's matrices; empty if it has no file of weights."""
    found: set[str] = set()
    for path in filter(None, map(files.beside, files.weight_names())):
        with safe_open(path, framework="pt") as file:
            slices = [file.get_slice(name) for name in file.keys()]  # noqa: SIM118 (it is no mapping)
            found |= {part.get_dtype() for part in slices if len(part.get_shape()) > 1}
    return found
