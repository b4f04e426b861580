"""Blocks whose content was copied into the pool instead of being computed: swapped in, loaded from a tier, received."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.trace.operations import Allocate, Cache, Load, Op, Receive, SwapIn


class MovedBlocks:
    """Blocks that were filled by a copy and have no hash yet, record by record."""

    def __init__(self) -> None:
        self._filled: dict[int, tuple[int, str]] = {}  # by block: its sequence, and the tag of the operation

    def read(self, ops: Iterable[Op], starts: Mapping[int, int]) -> dict[int, str]:
        """Read the next record; return the tag of the operation that filled the block, by the place of each `cache` of
        a block without a computed token. `starts`: first position that the record computes, by sequence.
        """
        found: dict[int, str] = {}
        for place, op in enumerate(ops):
            match op:
                case SwapIn() | Load() | Receive():
                    self._filled[op.block_id] = op.seq_id, str(op.__struct_config__.tag)
                case Allocate():
                    self._filled.pop(op.block_id, None)
                case Cache() if op.block_id in self._filled:
                    seq_id, tag = self._filled.pop(op.block_id)
                    end = (op.logical + 1) * len(op.token_ids)
                    if starts.get(seq_id, end) >= end:
                        found[place] = tag
                case _:
                    pass
        # what is left was copied in part, and is no copy once its sequence computes on
        self._filled = {block_id: of for block_id, of in self._filled.items() if of[0] not in starts}
        return found
