"""Pool tensors in memory that other processes can read: an unnamed file, mapped through its descriptor.

The owner publishes the positions of its blocks in the file (`Region`), as a NIXL agent registers its memory. It is not
involved in reads. A read is valid only if the owner confirms afterwards that it still holds the blocks.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from engine.cache.block_tiers import BlockTiers
from engine.connector.link import TransferError
from engine.system.host import anonymous_file, keeps_its_size

ALIGNMENT = 4096  # bytes, of a tensor's beginning


class Row(NamedTuple):
    """Tensor of a group. Its block `i` is at the offset `offset + (i - first_block) * bytes_per_block`."""

    offset: int
    bytes_per_block: int


class Region(NamedTuple):
    """Positions of the blocks of one group of layers."""

    first_block: int
    num_blocks: int
    rows: list[Row]  # in the order in which a block's content is concatenated (`BlockTiers.read`)


class SharedPools:
    """Allocator of a KV store's tensors (`kv_plane.NewPool`)."""

    def __init__(self, capacity: int | None = None) -> None:
        """Create the file. `capacity`: its bytes, by default the machine's memory. Unwritten pages use no memory."""
        self._capacity = capacity or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._file, self._readable = anonymous_file(self._capacity)
        self._area = torch.frombuffer(mmap.mmap(self._file, self._capacity), dtype=torch.uint8)
        self._used = 0

    def __call__(self, shape: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        if device.type != "cpu":
            raise ValueError(f"only CPU tensors can be in shared memory, got the device {device}")
        begin, size = self._used, prod(shape) * dtype.itemsize
        if begin + size > self._capacity:
            raise MemoryError(f"{begin + size} bytes exceed the capacity of {self._capacity} bytes")
        self._used = -(-(begin + size) // ALIGNMENT) * ALIGNMENT
        return self._area[begin : begin + size].view(dtype).reshape(shape)  # a new file contains zeros

    def regions(self, kv_caches: Sequence[BlockTiers]) -> list[Region]:
        """Return the regions of the blocks of each group of layers, whose tensors are from this allocator."""
        start = self._area.data_ptr()
        return [
            Region(
                cache.first_block,
                len(cache.pools[0]),
                [Row(pool.data_ptr() - start, pool[0].nbytes) for pool in cache.pools],
            )
            for cache in kv_caches
        ]

    def open(self) -> int:
        """Return a new read-only file descriptor of the memory. The caller closes it."""
        return os.dup(self._readable)

    def close(self) -> None:
        """Close the file. Tensors remain valid while they are referenced."""
        os.close(self._file)
        os.close(self._readable)


class MappedPools:
    """Pools of another process, which may change during a read."""

    def __init__(self, file: int, regions: Sequence[Region]) -> None:
        """Map the memory. `file`: from `SharedPools.open`; it may be closed afterwards.

        Raises:
            OSError, ValueError: the file cannot be mapped, or does not contain the regions.
        """
        rows = [(row, region.num_blocks) for region in regions for row in region.rows]
        if not rows or min(min(row.offset, row.bytes_per_block, num_blocks) for row, num_blocks in rows) < 0:
            raise ValueError("its regions are empty or have negative numbers")
        ends = [row.offset + num_blocks * row.bytes_per_block for row, num_blocks in rows]
        if not keeps_its_size(file) or max(ends) > os.fstat(file).st_size:
            raise ValueError("its regions exceed the file, or the file can be truncated")
        self._regions = regions
        self._area = memoryview(mmap.mmap(file, max(ends), prot=mmap.PROT_READ))

    def read(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return copies of the content of blocks (group, block id).

        Raises:
            TransferError: `out_of_range`.
        """
        return [self._block(group, block_id) for group, block_id in wanted]

    def _block(self, group: int, block_id: int) -> bytes:
        if not 0 <= group < len(self._regions):
            raise TransferError("out_of_range", f"the sender has no group {group}")
        region = self._regions[group]
        index = block_id - region.first_block
        if not 0 <= index < region.num_blocks:
            raise TransferError("out_of_range", f"the sender has no block {block_id}")
        parts = ((row.offset + index * row.bytes_per_block, row.bytes_per_block) for row in region.rows)
        return b"".join([self._area[begin : begin + size] for begin, size in parts])
