"""Tensors of the blocks: one pair (keys, values) per layer, addressed by slots.

    slot = index * block_size + position mod block_size
    index = block_id - first_block of the layer's group (`block_groups`)

    keys[layer]    [num_blocks, block_size, Hkv, D]    in the format of their plane (`kv_plane`)
    values[layer]  [num_blocks, block_size, Hkv, Dv]

The store knows nothing about sequences. Contiguous pre-allocation is the same store with one block of `max_model_len`
slots per sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.cache.kv_plane import KVPlane, NewPool, make_plane, zeros


class LayerShape(NamedTuple):
    """Shape of a token's keys and values in a layer."""

    num_kv_heads: int  # Hkv
    head_dim: int  # D, of a key
    v_head_dim: int  # Dv, of a value


class LatentShape(NamedTuple):
    """Latent vector of a token, which a layer with MLA stores instead of keys and values."""

    compressed: int  # numbers from which the keys and values of all heads are computed
    rotated: int  # numbers of the rotated part of the key, shared by all heads


class KVStore:
    """Keys and values of every layer for `num_blocks` blocks; layers may differ in shape."""

    def __init__(
        self,
        shapes: Sequence[LayerShape],
        num_blocks: int | Sequence[int],
        block_size: int,
        kind: str | torch.dtype,
        device: torch.device,
        compute_dtype: torch.dtype | None = None,
        new_pool: NewPool = zeros,
    ) -> None:
        """Allocate the tensors with `new_pool`. `num_blocks`: one number for all layers, or one for each.

        `kind`: a floating-point dtype, or one of `kv_plane.QUANTIZED`. `compute_dtype`: dtype of all reads, by default
        `kind` or, if quantized, float32.
        """
        self.shapes = list(shapes)
        self.num_blocks = [num_blocks] * len(self.shapes) if isinstance(num_blocks, int) else list(num_blocks)
        self.block_size = block_size
        self.kind = kind
        self.device = device
        self.compute_dtype = compute_dtype or (kind if isinstance(kind, torch.dtype) else torch.float32)
        self.is_lossy = kind != self.compute_dtype  # reads may differ from what was written
        sizes = list(zip(self.shapes, self.num_blocks, strict=True))
        self.keys = [self._plane(blocks, shape.num_kv_heads, shape.head_dim, new_pool) for shape, blocks in sizes]
        self.values = [self._plane(blocks, shape.num_kv_heads, shape.v_head_dim, new_pool) for shape, blocks in sizes]

    def _plane(self, num_blocks: int, num_kv_heads: int, width: int, new_pool: NewPool) -> KVPlane:
        shape = (num_blocks, self.block_size, num_kv_heads, width)
        if not width:  # latents have no separate values
            return make_plane(self.compute_dtype, shape, self.compute_dtype, self.device)
        return make_plane(self.kind, shape, self.compute_dtype, self.device, new_pool)

    def pools(self, layers: Sequence[int]) -> list[Tensor]:
        """Return every tensor of these layers, with blocks as the first dimension."""
        planes = [plane for layer in layers for plane in (self.keys[layer], self.values[layer])]
        return [pool for plane in planes for pool in plane.pools if pool.numel()]

    def release(self) -> None:
        """Free the memory of all tensors, even if references to them remain. They cannot be read afterwards."""
        for pool in self.pools(range(self.num_layers)):
            if pool.untyped_storage().resizable():
                pool.untyped_storage().resize_(0)

    def num_slots(self, layer: int) -> int:
        """Return the number of slots of one layer's pool."""
        return self.num_blocks[layer] * self.block_size

    def bytes_per_token_of(self, layers: Sequence[int]) -> int:
        """Return the bytes of a token in these layers together."""
        return sum(self.keys[layer].bytes_per_slot + self.values[layer].bytes_per_slot for layer in layers)

    @property
    def num_layers(self) -> int:
        return len(self.shapes)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of a token in all layers together."""
        return self.bytes_per_token_of(range(self.num_layers))

    @property
    def bytes(self) -> int:
        """Bytes of all pools."""
        return sum(self.bytes_per_token_of([layer]) * self.num_slots(layer) for layer in range(self.num_layers))

    def write(self, layer: int, slot_mapping: Tensor, k: Tensor, v: Tensor) -> None:
        """Write k [T, Hkv, D] and v [T, Hkv, Dv] to the slots `slot_mapping` [T], which must be distinct."""
        self.keys[layer].write(slot_mapping, k)
        self.values[layer].write(slot_mapping, v)

    def gather_heads(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys [N, D] and values [N, Dv] of `rows` [N], where row = slot * Hkv + head."""
        return self.keys[layer].read_heads(rows), self.values[layer].read_heads(rows)

    def gather(self, layer: int, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Return copies of keys [N, Hkv, D] and values [N, Hkv, Dv] of `slots` [N], in this order."""
        return self.keys[layer].read(slots), self.values[layer].read(slots)

    def view(self, layer: int, first_slot: int, num_slots: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of adjacent slots, without a copy if they are stored unconverted."""
        return self.keys[layer].view(first_slot, num_slots), self.values[layer].view(first_slot, num_slots)
