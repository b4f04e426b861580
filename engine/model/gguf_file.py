"""Contents of GGUF files, read by the package gguf. transformers reads their tensors and expands them."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from engine.model.errors import ModelError
from engine.options.refusal import sentence

SUFFIX = ".gguf"


class GgufWeights(NamedTuple):
    """Weights of a file."""

    form: str  # of most weights, for example Q4_K
    num_bytes: int
    num_weights: int


def is_gguf(name: str) -> bool:
    """Return whether a name is that of an existing GGUF file."""
    return name.endswith(SUFFIX) and Path(name).expanduser().is_file()


def check_gguf_package() -> None:
    """Raises:
    ModelError: the package is not installed.
    """
    if importlib.util.find_spec("gguf") is None:
        raise ModelError(sentence("gguf.package"))


def gguf_weights(path: str | Path) -> GgufWeights:
    """Count the weights of a file; only their descriptions are read.

    Raises:
        ModelError: the package is missing, or this is no GGUF file.
    """
    check_gguf_package()
    from gguf import GGUFReader

    try:
        tensors = GGUFReader(Path(path).expanduser()).tensors
    except Exception as error:  # damaged bytes may raise anything
        raise ModelError(sentence("gguf.unreadable", path=path, reason=" ".join(str(error).split())[:200])) from error
    forms = Counter[str]()
    for tensor in tensors:
        forms[tensor.tensor_type.name] += int(tensor.n_elements)
    if not forms:
        raise ModelError(sentence("gguf.empty", path=path))
    return GgufWeights(forms.most_common(1)[0][0], sum(int(one.n_bytes) for one in tensors), forms.total())
