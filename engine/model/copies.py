"""Counter of the cache bytes that a step copies, based on the tensors' addresses before and after the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from engine.trace.records import CacheTensors


class CopyCounter:
    """Counter of a step's copied bytes. It holds references to the old tensors, so that no address is reused."""

    def __init__(self, before: Mapping[Any, Tensor]) -> None:
        """Begin a step. `before` maps stable names to all tensors of the cache."""
        self._before = dict(before)

    def compare(self, now: Mapping[Any, Tensor], copied_blocks: int = 0) -> CacheTensors:
        """Return the figures of a step. `copied_blocks`: bytes of blocks copied within tensors that did not move."""
        moved = [old for name, old in self._before.items() if name in now and now[name].data_ptr() != old.data_ptr()]
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in now.values()}
        return CacheTensors(
            copied_bytes=sum(old.nbytes for old in moved) + copied_blocks,
            num_copied=len(moved),
            storage_bytes=sum(storages.values()),
        )
