"""Tensors of one group of layers on the device and in CPU memory, and moves of blocks between them.

The index of a block in a tensor is `block id - first block id` of the tensor's tier (see `block_groups`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.cache.block_moves import MOVES, BlockMoves, Tier
from engine.cache.kv_store import KVStore
from engine.cache.state_store import StateStore

BLOCKS_AT_ONCE = 32  # gathered on the device before a copy to the host


class BlockTiers:
    """Tensors of a group in each tier, in the same order, with blocks as their first dimension."""

    def __init__(
        self,
        store: KVStore | StateStore,
        layers: Sequence[int],
        first_block: int = 0,
        num_cpu_blocks: int = 0,
        first_cpu_block: int = 0,
    ) -> None:
        """Use the tensors of `store` on the device, and allocate those in CPU memory. `first_*`: first block ids.

        Raises:
            RuntimeError, MemoryError: the CPU has too little memory for `num_cpu_blocks` blocks.
        """
        device_pools = store.pools(layers)
        pinned = store.device.type == "cuda"  # so that a copy is one transfer
        cpu_pools = [
            torch.empty((num_cpu_blocks, *pool.shape[1:]), dtype=pool.dtype, pin_memory=pinned)
            for pool in device_pools
            if num_cpu_blocks
        ]
        self._pools: dict[Tier, list[Tensor]] = {"device": device_pools, "cpu": cpu_pools}
        self._first: dict[Tier, int] = {"device": first_block, "cpu": first_cpu_block}

    @property
    def pools(self) -> list[Tensor]:
        """Device tensors of these layers."""
        return self._pools["device"]

    @property
    def first_block(self) -> int:
        """Id of the first block on the device."""
        return self._first["device"]

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block in the device's tensors of these layers."""
        return sum(pool[0].nbytes for pool in self._pools["device"])

    def read(self, block_ids: Sequence[int]) -> list[memoryview]:
        """Return the content of each block, `bytes_per_block` bytes: its rows of all tensors, concatenated in order."""
        batches = [block_ids[i : i + BLOCKS_AT_ONCE] for i in range(0, len(block_ids), BLOCKS_AT_ONCE)]
        return [content for batch in batches for content in self._read(batch)]

    def _read(self, block_ids: Sequence[int]) -> list[memoryview]:
        pools = self._pools["device"]
        index = torch.tensor(block_ids, device=pools[0].device) - self._first["device"]
        parts = [pool.index_select(0, index).reshape(len(block_ids), -1).view(torch.uint8) for pool in pools]
        rows = torch.cat(parts, dim=1).cpu().numpy()  # [n, bytes_per_block]
        return [memoryview(row) for row in rows]

    def write(self, contents: Sequence[tuple[int, bytes]]) -> None:
        """Write contents, by block id, that `read` returned here or in another engine with the same tensors.

        Raises:
            ValueError: a content does not have `bytes_per_block` bytes.
        """
        if not contents:
            return
        size, block_ids = self.bytes_per_block, [block_id for block_id, _ in contents]
        wrong = [len(data) for _, data in contents if len(data) != size]
        if wrong:
            raise ValueError(f"the content of a block must have {size} bytes, got {wrong[0]}")
        rows = torch.frombuffer(bytearray(b"".join(data for _, data in contents)), dtype=torch.uint8)
        rows = rows.reshape(len(contents), size)
        begin = 0
        for pool in self._pools["device"]:
            num_bytes = pool[0].nbytes
            part = rows[:, begin : begin + num_bytes].contiguous().view(pool.dtype).reshape(-1, *pool.shape[1:])
            index = torch.tensor(block_ids, device=pool.device) - self._first["device"]
            pool.index_copy_(0, index, part.to(pool.device))
            begin += num_bytes

    def move(self, moves: BlockMoves) -> None:
        """Execute all moves, one kind after the other. Within a kind all sources are read before any write."""
        for (source, target), pairs in zip(MOVES.values(), moves, strict=True):
            if pairs:
                self._move(source, target, pairs)

    def _move(self, source: Tier, target: Tier, pairs: Sequence[tuple[int, int]]) -> None:
        src, dst = zip(*pairs, strict=True)
        pools = list(zip(self._pools[source], self._pools[target], strict=True))
        src_index = torch.tensor(src, device=pools[0][0].device) - self._first[source]
        dst_index = torch.tensor(dst, device=pools[0][1].device) - self._first[target]
        for src_pool, dst_pool in pools:
            dst_pool.index_copy_(0, dst_index, src_pool.index_select(0, src_index).to(dst_pool.device))
