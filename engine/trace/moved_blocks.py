"""Blocks whose content was copied into the pool instead of being computed: swapped in, loaded from a tier, received."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.trace.operations import Allocate, Cache, Load, Op, Receive, SwapIn


class MovedBlocks:
    """Tracks blocks that were filled by a copy and have no hash yet, record by record."""

    def __init__(self) -> None:
        self._filled: dict[int, tuple[int, str]] = {}  # block id -> its sequence, and the type of the operation

    def read(self, ops: Iterable[Op], starts: Mapping[int, int]) -> dict[int, str]:
        """Read the next record. `starts`: seq_id -> first position that it computes.

        Returns, for each `cache` operation of a block without computed tokens, the type of operation that filled it.
        """
        found: dict[int, str] = {}
        for position, op in enumerate(ops):
            match op:
                case SwapIn() | Load() | Receive():
                    self._filled[op.block_id] = op.seq_id, str(op.__struct_config__.tag)
                case Allocate():
                    self._filled.pop(op.block_id, None)
                case Cache() if op.block_id in self._filled:
                    seq_id, tag = self._filled.pop(op.block_id)
                    end = (op.logical + 1) * len(op.token_ids)
                    if starts.get(seq_id, end) >= end:
                        found[position] = tag
                case _:
                    pass
        # the other blocks are partly filled; once their sequences compute further tokens, they are not pure copies
        self._filled = {block_id: source for block_id, source in self._filled.items() if source[0] not in starts}
        return found
