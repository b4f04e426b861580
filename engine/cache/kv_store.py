"""The tensors behind the blocks: one pair (keys, values) per layer, addressed by slots.

    slot = block_id * block_size + position mod block_size

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

from engine.cache.kv_plane import KVPlane, make_plane


class LayerShape(NamedTuple):
    """What one layer keeps of one token."""

    num_kv_heads: int  # Hkv
    head_dim: int  # D, of a key
    v_head_dim: int  # Dv, of a value


class KVStore:
    """Keys and values of every layer for `num_blocks` blocks; layers may differ in shape."""

    def __init__(
        self,
        shapes: Sequence[LayerShape],
        num_blocks: int,
        block_size: int,
        kind: str | torch.dtype,
        device: torch.device,
        compute_dtype: torch.dtype | None = None,
    ) -> None:
        """`kind`: a floating-point dtype, or one of `kv_plane.QUANTIZED`. What is read has `compute_dtype`: by default
        the kind's own, float32 for a quantized one.
        """
        self.shapes = list(shapes)
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.kind = kind
        self.device = device
        own = kind if isinstance(kind, torch.dtype) else torch.float32
        self.compute_dtype = compute_dtype or own
        # Whether what is read may differ from what was written.
        self.is_lossy = kind != self.compute_dtype
        self.keys = [self._plane(shape.num_kv_heads, shape.head_dim) for shape in self.shapes]
        self.values = [self._plane(shape.num_kv_heads, shape.v_head_dim) for shape in self.shapes]
        # Every tensor, block first: what copying whole blocks goes over.
        self.pools: list[Tensor] = [pool for plane in (*self.keys, *self.values) for pool in plane.pools]

    def _plane(self, num_kv_heads: int, width: int) -> KVPlane:
        shape = (self.num_blocks, self.block_size, num_kv_heads, width)
        return make_plane(self.kind, shape, self.compute_dtype, self.device)

    @property
    def num_layers(self) -> int:
        return len(self.shapes)

    @property
    def bytes_per_token(self) -> int:
        """Bytes one token takes in all layers together."""
        return sum(plane.bytes_per_slot for plane in (*self.keys, *self.values))

    @property
    def bytes(self) -> int:
        """Bytes of the whole pool."""
        return self.bytes_per_token * self.num_blocks * self.block_size

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
        """The same for slots that follow each other; without a copy where the numbers lie as they are."""
        return self.keys[layer].view(first_slot, num_slots), self.values[layer].view(first_slot, num_slots)

    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks, `(src, dst)` each, in all layers. Sources are read before any destination is written."""
        if not pairs:
            return
        src = torch.tensor([pair[0] for pair in pairs], device=self.device)
        dst = torch.tensor([pair[1] for pair in pairs], device=self.device)
        for pool in self.pools:
            pool.index_copy_(0, dst, pool.index_select(0, src))


class HostStore:
    """Blocks in CPU memory, of the same shape as a store's, for the content of swapped-out sequences."""

    def __init__(self, store: KVStore, num_blocks: int) -> None:
        self._store = store
        # Page-locked where there is a device, so that a copy is one transfer.
        pinned = store.device.type == "cuda"
        self._pools = [
            torch.empty((num_blocks, *pool.shape[1:]), dtype=pool.dtype, pin_memory=pinned) for pool in store.pools
        ]

    def swap_out(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks, `(block, CPU block)` each, out of the store, all layers."""
        src, dst = self._indices(pairs, self._store.device, torch.device("cpu"))
        for host, pool in zip(self._pools, self._store.pools, strict=True):
            host.index_copy_(0, dst, pool.index_select(0, src).cpu())

    def swap_in(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks, `(CPU block, block)` each, back into the store, all layers."""
        src, dst = self._indices(pairs, torch.device("cpu"), self._store.device)
        for host, pool in zip(self._pools, self._store.pools, strict=True):
            pool.index_copy_(0, dst, host.index_select(0, src).to(pool.device))

    @staticmethod
    def _indices(
        pairs: Sequence[tuple[int, int]], src_device: torch.device, dst_device: torch.device
    ) -> tuple[Tensor, Tensor]:
        src, dst = zip(*pairs, strict=True)
        return torch.tensor(src, device=src_device), torch.tensor(dst, device=dst_device)
