"""Counter of the cache bytes that a step copies, from the addresses of tensors before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from engine.trace.records import CacheTensors


class CopyCounter:
    """Counter of copied bytes in a step. Holds the tensors of its beginning, so that addresses are not reused."""

    def __init__(self, before: Mapping[Any, Tensor]) -> None:
        """Begin a step. `before`: all tensors of the cache, by stable names."""
        self._before = dict(before)

    def compare(self, now: Mapping[Any, Tensor], copied_blocks: int = 0) -> CacheTensors:
        """Return the figures of a step. `copied_blocks`: bytes of blocks copied within unmoved tensors."""
        moved = [old for name, old in self._before.items() if name in now and now[name].data_ptr() != old.data_ptr()]
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in now.values()}
        return CacheTensors(
            copied_bytes=sum(old.nbytes for old in moved) + copied_blocks,
            num_copied=len(moved),
            storage_bytes=sum(storages.values()),
        )
