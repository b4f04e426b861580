"""The tensors behind the blocks: one pair (keys, values) per layer, addressed by slots.

    slot = place * block_size + position mod block_size
    place = block_id - first_block of the layer's group (`block_groups`)

    keys[layer]    [num_blocks, block_size, Hkv, D]
    values[layer]  [num_blocks, block_size, Hkv, Dv]

in the form that their plane keeps them (`kv_plane`).

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
    """Latent vector of one token, of which one layer keeps no more (MLA)."""

    compressed: int  # numbers that keys and values of all heads are computed from
    rotated: int  # numbers of the rotated key part that all heads share


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
        """`num_blocks`: of every layer, or of each. `kind`: a floating-point dtype, or one of `kv_plane.QUANTIZED`.
        What is read has `compute_dtype`: by default the kind's own, float32 for a quantized one. `new_pool`: where the
        tensors lie.
        """
        self.shapes = list(shapes)
        self.num_blocks = [num_blocks] * len(self.shapes) if isinstance(num_blocks, int) else list(num_blocks)
        self.block_size = block_size
        self.kind = kind
        self.device = device
        own = kind if isinstance(kind, torch.dtype) else torch.float32
        self.compute_dtype = compute_dtype or own
        # Whether what is read may differ from what was written.
        self.is_lossy = kind != self.compute_dtype
        sizes = list(zip(self.shapes, self.num_blocks, strict=True))
        self.keys = [self._plane(blocks, shape.num_kv_heads, shape.head_dim, new_pool) for shape, blocks in sizes]
        self.values = [self._plane(blocks, shape.num_kv_heads, shape.v_head_dim, new_pool) for shape, blocks in sizes]

    def _plane(self, num_blocks: int, num_kv_heads: int, width: int, new_pool: NewPool) -> KVPlane:
        shape = (num_blocks, self.block_size, num_kv_heads, width)
        if not width:  # latents alone: nothing to round, and nothing to share with other processes
            return make_plane(self.compute_dtype, shape, self.compute_dtype, self.device)
        return make_plane(self.kind, shape, self.compute_dtype, self.device, new_pool)

    def pools(self, layers: Sequence[int]) -> list[Tensor]:
        """Return every tensor of these layers, block first: what moving whole blocks goes over."""
        planes = [plane for layer in layers for plane in (self.keys[layer], self.values[layer])]
        return [pool for plane in planes for pool in plane.pools if pool.numel()]

    def release(self) -> None:
        """Free the memory of every tensor, even if references to them remain; nothing can be read afterwards."""
        for pool in self.pools(range(self.num_layers)):
            if pool.untyped_storage().resizable():
                pool.untyped_storage().resize_(0)

    def num_slots(self, layer: int) -> int:
        """Slots of one layer's pool."""
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
        """Put k [T, Hkv, D] and v [T, Hkv, Dv] into the slots `slot_mapping` [T]; no slot may occur twice."""
        self.keys[layer].write(slot_mapping, k)
        self.values[layer].write(slot_mapping, v)

    def gather_heads(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Keys [N, D] and values [N, Dv] of `rows` [N], where row = slot * Hkv + head."""
        return self.keys[layer].read_heads(rows), self.values[layer].read_heads(rows)

    def gather(self, layer: int, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Copies of keys [N, Hkv, D] and values [N, Hkv, Dv] in the order of `slots` [N]."""
        return self.keys[layer].read(slots), self.values[layer].read(slots)

    def view(self, layer: int, first_slot: int, num_slots: int) -> tuple[Tensor, Tensor]:
        """Return the same for slots that follow each other; without a copy where the numbers lie as they are."""
        return self.keys[layer].view(first_slot, num_slots), self.values[layer].view(first_slot, num_slots)
