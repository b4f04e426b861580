"""The tensors behind blocks of states: of each tensor of a sequence's state one row a block.

    tensors[i]   [num_blocks, *shape]      i: a tensor of some layer's state

A block of states holds what all layers with a state keep of one sequence at one position: it has one size, however many
tokens it stands for. Its place in the tensors is block_id - first_block of the group, as of keys and values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.cache.kv_plane import NewPool, zeros


class StateShape(NamedTuple):
    """Tensor of one sequence's state."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        """Bytes of it."""
        return math.prod(self.shape) * self.dtype.itemsize


class StateStore:
    """States of all layers for `num_blocks` blocks."""

    def __init__(
        self, shapes: Sequence[StateShape], num_blocks: int, device: torch.device, new_pool: NewPool = zeros
    ) -> None:
        """`new_pool`: where the tensors lie."""
        self.num_blocks = num_blocks
        self.device = device
        self.tensors = [new_pool((num_blocks, *one.shape), dtype=one.dtype, device=device) for one in shapes]

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one sequence's state."""
        return sum(tensor[0].nbytes for tensor in self.tensors)

    def pools(self, layers: Sequence[int] = ()) -> list[Tensor]:
        """Return every tensor, block first: what moving whole blocks goes over. `layers`: as of `KVStore`, without
        effect.
        """
        return self.tensors

    def release(self) -> None:
        """Free the memory of every tensor."""
        for tensor in self.tensors:
            if tensor.untyped_storage().resizable():
                tensor.untyped_storage().resize_(0)
