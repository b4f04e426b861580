"""The blocks of one group of layers as tensors, on the device and in CPU memory, and whole blocks moved between them.

A block lies in a tensor at place `block id - first block id` of the tensor's tier (see `block_groups`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.cache.block_moves import MOVES, BlockMoves, Tier
from engine.cache.kv_store import KVStore


class BlockTiers:
    """One group's tensors in each tier, all with the block as their first dimension, in the same order."""

    def __init__(
        self,
        store: KVStore,
        layers: Sequence[int],
        first_block: int = 0,
        num_cpu_blocks: int = 0,
        first_cpu_block: int = 0,
    ) -> None:
        """The device's tensors are those of `store`; the CPU's are made here. `first_*`: the ids of the groups' blocks.

        Raises:
            RuntimeError, MemoryError: there is no CPU memory for so many blocks.
        """
        device_pools = store.pools(layers)
        # page-locked where there is a device, so that a copy is one transfer
        pinned = store.device.type == "cuda"
        cpu_pools = [
            torch.empty((num_cpu_blocks, *pool.shape[1:]), dtype=pool.dtype, pin_memory=pinned)
            for pool in device_pools
            if num_cpu_blocks
        ]
        self._pools: dict[Tier, list[Tensor]] = {"device": device_pools, "cpu": cpu_pools}
        self._first: dict[Tier, int] = {"device": first_block, "cpu": first_cpu_block}

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block in the device's tensors of these layers."""
        return sum(pool[0].nbytes for pool in self._pools["device"])

    def move(self, moves: BlockMoves) -> None:
        """Carry out every move, kind after kind. Within a kind all sources are read before a destination is written."""
        for (source, target), pairs in zip(MOVES.values(), moves, strict=True):
            if pairs:
                self._move(source, target, pairs)

    def _move(self, source: Tier, target: Tier, pairs: Sequence[tuple[int, int]]) -> None:
        src, dst = zip(*pairs, strict=True)
        pools = list(zip(self._pools[source], self._pools[target], strict=True))
        from_place = torch.tensor(src, device=pools[0][0].device) - self._first[source]
        to_place = torch.tensor(dst, device=pools[0][1].device) - self._first[target]
        for here, there in pools:
            there.index_copy_(0, to_place, here.index_select(0, from_place).to(there.device))
