"""Tensors of state blocks: one tensor for each tensor of a sequence's state, with one row per block.

    tensors[i]   [num_blocks, *shape]      i: a tensor of some layer's state

A block holds the states of all such layers for one sequence at one position. Its size does not depend on the number of
tokens. Its row in the tensors is block_id - first_block of the group, as for keys and values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.cache.kv_plane import NewPool, zeros


class StateShape(NamedTuple):
    """Shape and dtype of one tensor of a sequence's state."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape) * self.dtype.itemsize


class StateStore:
    """States of all layers for `num_blocks` blocks."""

    def __init__(
        self, shapes: Sequence[StateShape], num_blocks: int, device: torch.device, new_pool: NewPool = zeros
    ) -> None:
        """Allocate the tensors with `new_pool`."""
        self.num_blocks = num_blocks
        self.device = device
        self.tensors = [new_pool((num_blocks, *one.shape), dtype=one.dtype, device=device) for one in shapes]

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one sequence's state."""
        return sum(tensor[0].nbytes for tensor in self.tensors)

    def pools(self, layers: Sequence[int] = ()) -> list[Tensor]:
        """Return every tensor, as `KVStore.pools` does. `layers` has no effect."""
        return self.tensors

    def release(self) -> None:
        """Free the memory of all tensors."""
        for tensor in self.tensors:
            if tensor.untyped_storage().resizable():
                tensor.untyped_storage().resize_(0)
