"""Blocks of one group of layers as tensors, on the device and in CPU memory, and moves of blocks between them.

A block lies in a tensor at place `block id - first block id` of the tensor's tier (see `block_groups`).
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
    """Tensors of a group in each tier, all with the block as their first dimension, in the same order."""

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

    def take(self, block_ids: Sequence[int]) -> list[memoryview]:
        """Return the content of blocks, `bytes_per_block` bytes each: of every tensor, in order, what it has of the
        block.
        """
        pieces = [block_ids[i : i + BLOCKS_AT_ONCE] for i in range(0, len(block_ids), BLOCKS_AT_ONCE)]
        return [content for piece in pieces for content in self._take(piece)]

    def _take(self, block_ids: Sequence[int]) -> list[memoryview]:
        pools = self._pools["device"]
        place = torch.tensor(block_ids, device=pools[0].device) - self._first["device"]
        parts = [pool.index_select(0, place).reshape(len(block_ids), -1).view(torch.uint8) for pool in pools]
        rows = torch.cat(parts, dim=1).cpu().numpy()  # [n, bytes_per_block]
        return [memoryview(row) for row in rows]

    def put(self, contents: Sequence[tuple[int, bytes]]) -> None:
        """Write content to blocks that `take` returned, here or in another engine with the same tensors.

        Raises:
            ValueError: a content is of another size.
        """
        if not contents:
            return
        size, block_ids = self.bytes_per_block, [block_id for block_id, _ in contents]
        wrong = [len(data) for _, data in contents if len(data) != size]
        if wrong:
            raise ValueError(f"a block has {size} bytes here, not {wrong[0]}")
        rows = torch.frombuffer(bytearray(b"".join(data for _, data in contents)), dtype=torch.uint8)
        rows = rows.reshape(len(contents), size)
        begin = 0
        for pool in self._pools["device"]:
            num_bytes = pool[0].nbytes
            part = rows[:, begin : begin + num_bytes].contiguous().view(pool.dtype).reshape(-1, *pool.shape[1:])
            place = torch.tensor(block_ids, device=pool.device) - self._first["device"]
            pool.index_copy_(0, place, part.to(pool.device))
            begin += num_bytes

    def move(self, moves: BlockMoves) -> None:
        """Execute all moves, one kind after the other. Within a kind all sources are read before any write."""
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
