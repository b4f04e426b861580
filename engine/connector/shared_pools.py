"""Pool tensors in memory that other processes can read: an unnamed file, mapped through its descriptor.

The owner publishes the position of each tensor's blocks in the file (`Region`), as a NIXL agent registers its memory,
and is not involved in reads: a read counts only after the owner has confirmed that it still held the blocks.
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

LINE = 4096  # bytes to which a tensor's beginning is aligned


class Row(NamedTuple):
    """Tensor: block `i` of its group lies at `offset + (i - first_block) * bytes_per_block`."""

    offset: int
    bytes_per_block: int


class Region(NamedTuple):
    """The blocks of one group of layers."""

    first_block: int
    num_blocks: int
    rows: list[Row]  # in the order in which a block's content has them (`BlockTiers.take`)


class SharedPools:
    """Gives a KV store its tensors (`kv_plane.NewPool`)."""

    def __init__(self, capacity: int | None = None) -> None:
        """`capacity`: bytes that all tensors may take, by default the machine's memory; what is not written to takes
        none.
        """
        self._capacity = capacity or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._file, self._readable = anonymous_file(self._capacity)
        self._area = torch.frombuffer(mmap.mmap(self._file, self._capacity), dtype=torch.uint8)
        self._used = 0

    def __call__(self, shape: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        if device.type != "cpu":
            raise ValueError(f"only CPU tensors are in shared memory, not those of {device}")
        begin, size = self._used, prod(shape) * dtype.itemsize
        if begin + size > self._capacity:
            raise MemoryError(f"{begin + size} bytes are over the {self._capacity} that there are")
        self._used = -(-(begin + size) // LINE) * LINE
        return self._area[begin : begin + size].view(dtype).reshape(shape)  # the file is of zeros

    def regions(self, kv_caches: Sequence[BlockTiers]) -> list[Region]:
        """Return the memory regions of the blocks of each group of layers, for tensors of this allocator."""
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
        """Return a new file descriptor of the memory, which reads and does not write; the caller closes it."""
        return os.dup(self._readable)

    def close(self) -> None:
        """Close the file; tensors remain valid while they are referenced."""
        os.close(self._file)
        os.close(self._readable)


class MappedPools:
    """Another process's pools, mapped live: a reader validates its copy afterwards."""

    def __init__(self, file: int, regions: Sequence[Region]) -> None:
        """Map the memory. `file`: from `SharedPools.open`; not needed afterwards.

        Raises:
            OSError, ValueError: it is no such memory, or its description does not fit it.
        """
        rows = [(row, region.num_blocks) for region in regions for row in region.rows]
        if not rows or min(min(row.offset, row.bytes_per_block, num_blocks) for row, num_blocks in rows) < 0:
            raise ValueError("there are no blocks in it")
        ends = [row.offset + num_blocks * row.bytes_per_block for row, num_blocks in rows]
        if not keeps_its_size(file) or max(ends) > os.fstat(file).st_size:
            raise ValueError("it may end before its blocks do")
        self._regions = regions
        self._area = memoryview(mmap.mmap(file, max(ends), prot=mmap.PROT_READ))

    def read(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        """Copies of the content of blocks (group, block id).

        Raises:
            TransferError: `out_of_range`.
        """
        return [self._block(group, block_id) for group, block_id in wanted]

    def _block(self, group: int, block_id: int) -> bytes:
        if not 0 <= group < len(self._regions):
            raise TransferError("out_of_range", f"the sender has no group {group}")
        region = self._regions[group]
        place = block_id - region.first_block
        if not 0 <= place < region.num_blocks:
            raise TransferError("out_of_range", f"the sender has no block {block_id}")
        begins = ((row.offset + place * row.bytes_per_block, row.bytes_per_block) for row in region.rows)
        return b"".join([self._area[begin : begin + size] for begin, size in begins])
