"""Store of latent vectors (MLA; DeepSeek-AI, arXiv 2405.04434, 2.1): one per token and layer, for all heads.

    slot    [ compressed part | rotated key part ]        DeepSeek-V3: 512 + 64 numbers in place of 128 * (192 + 128)

There are two views of the same planes. `LatentStore` has one key head whose values are the compressed part.
`ExpandedStore` computes the keys and values of every head when they are read. Copies of blocks do not convert them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.cache.kv_plane import NewPool, zeros
from engine.cache.kv_store import KVStore, LatentShape, LayerShape

Expand = Callable[
    [int, Tensor], tuple[Tensor, Tensor]
]  # layer, latents [N, W] -> keys [N, Hkv, D], values [N, Hkv, Dv]


class LatentStore(KVStore):
    """Latents as the keys of one head, whose values are the compressed part of each latent."""

    def __init__(
        self,
        latents: Sequence[LatentShape],
        num_blocks: int | Sequence[int],
        block_size: int,
        kind: str | torch.dtype,
        device: torch.device,
        compute_dtype: torch.dtype | None = None,
        new_pool: NewPool = zeros,
    ) -> None:
        """`latents`: one shape per layer; the other arguments are those of `KVStore`."""
        planes = [LayerShape(1, sum(latent), 0) for latent in latents]
        super().__init__(planes, num_blocks, block_size, kind, device, compute_dtype, new_pool)
        self.shapes = [LayerShape(1, sum(latent), latent.compressed) for latent in latents]

    def gather_heads(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self._with_values(layer, self.keys[layer].read_heads(rows))

    def gather(self, layer: int, slots: Tensor) -> tuple[Tensor, Tensor]:
        return self._with_values(layer, self.keys[layer].read(slots))

    def view(self, layer: int, first_slot: int, num_slots: int) -> tuple[Tensor, Tensor]:
        return self._with_values(layer, self.keys[layer].view(first_slot, num_slots))

    def _with_values(self, layer: int, keys: Tensor) -> tuple[Tensor, Tensor]:
        return keys, keys[..., : self.shapes[layer].v_head_dim]


class ExpandedStore(KVStore):
    """Keys and values of every head, computed from the latents of a store whenever they are read."""

    def __init__(self, latents: LatentStore, shapes: Sequence[LayerShape], expand: Expand) -> None:
        self.__dict__.update(latents.__dict__)  # share the planes
        self.latents = latents
        self.shapes = list(shapes)
        self._expand = expand

    def gather_heads(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        num_heads = self.shapes[layer].num_kv_heads
        slots, index = torch.unique(rows // num_heads, return_inverse=True)  # expansion computes all heads of a slot
        keys, values = self.gather(layer, slots)
        heads = rows % num_heads
        return keys[index, heads], values[index, heads]

    def gather(self, layer: int, slots: Tensor) -> tuple[Tensor, Tensor]:
        return self._expand(layer, self.keys[layer].read(slots)[:, 0])

    def view(self, layer: int, first_slot: int, num_slots: int) -> tuple[Tensor, Tensor]:
        return self._expand(layer, self.keys[layer].view(first_slot, num_slots)[:, 0])
