"""Detects whether a model's queries, keys or values depend on a token's place in the packed row.

A step packs the tokens of many sequences into one row. A token's place in that row is arbitrary; its position is a
separate input. A model that uses places as positions (`arange` over the row) computes different values for the same
token in another batch. The difference may begin only after thousands of tokens, where a short comparison does not find
it: Llama 4 scales its queries that way. Therefore every tensor computed from an `arange` with the row's length is
marked, and no layer may attend with marked tensors.

Indexing with a marked index does not mark the result (experts gather their tokens that way), unless a weight is
indexed, which is then a table of positions.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

_SELECTING = ("index", "gather", "scatter", "embedding", "take")


class PackedPlaces(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that marks every tensor computed from places in a row of `num_tokens` tokens."""

    def __init__(self, module: nn.Module, num_tokens: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._num_tokens = num_tokens
        weights = [part for t in (*module.parameters(), *module.buffers()) for part in plain_parts(t)]
        self._weights = {part.untyped_storage().data_ptr() for part in weights}
        self._marked: dict[int, Tensor] = {}  # by id; the reference prevents reuse of the id

    def is_marked(self, tensor: Tensor) -> bool:
        """Return whether a tensor is computed from places."""
        return id(tensor) in self._marked

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.__name__.split(".")[0]
        if name.startswith("arange"):
            if out.numel() == self._num_tokens:
                self._mark(out)
            return out
        tensors = [t for value in (*args, *(kwargs or {}).values()) for t in _tensors(value)]
        if any(map(self.is_marked, tensors)) and (
            not name.startswith(_SELECTING)
            or self.is_marked(tensors[0])
            or tensors[0].untyped_storage().data_ptr() in self._weights
        ):
            for result in _tensors(out):
                self._mark(result)
        return out

    def _mark(self, tensor: Tensor) -> None:
        self._marked[id(tensor)] = tensor


def plain_parts(tensor: Any) -> list[Tensor]:
    """Return the tensors with a storage that a tensor consists of: itself, or the parts of torchao's tensors."""
    if not hasattr(tensor, "__tensor_flatten__"):
        return [tensor]
    return [part for name in tensor.__tensor_flatten__()[0] for part in plain_parts(getattr(tensor, name))]


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [t for item in value for t in _tensors(item)] if isinstance(value, (list, tuple)) else []
