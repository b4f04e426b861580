"""Copies of whole blocks, to be executed before a step's forward pass."""

from __future__ import annotations

from typing import Literal, NamedTuple

Tier = Literal["device", "cpu"]

# In order of execution: content is swapped out before its block is overwritten, and swapped in before it is copied.
MOVES: dict[str, tuple[Tier, Tier]] = {
    "swap_out": ("device", "cpu"),
    "swap_in": ("cpu", "device"),
    "copy": ("device", "device"),
}


class BlockMoves(NamedTuple):
    """Pending moves in a group of layers: (source, destination) of each, by block id."""

    swap_out: list[tuple[int, int]]
    swap_in: list[tuple[int, int]]
    copy: list[tuple[int, int]]


assert BlockMoves._fields == tuple(MOVES)


class PendingMoves:
    """Moves that are not executed yet.

    Copies have distinct destinations, and none is a later source, so one gather and one scatter suffice.
    """

    def __init__(self) -> None:
        self._copies: dict[int, int] = {}  # dst -> src, in order
        self._swaps_out: list[tuple[int, int]] = []
        self._swaps_in: list[tuple[int, int]] = []

    @property
    def fills_blocks(self) -> bool:
        """Whether a move into a block is pending."""
        return bool(self._copies or self._swaps_in)

    def copy(self, src: int, dst: int) -> None:
        """Add a copy, for copy-on-write."""
        self._copies[dst] = src

    def swap_out(self, block_id: int, cpu_block_id: int) -> None:
        """Add a move to the CPU store. Swaps precede copies, so a block with a pending copy is read at its source."""
        self._swaps_out.append((self._copies.get(block_id, block_id), cpu_block_id))

    def swap_in(self, cpu_block_id: int, block_id: int) -> None:
        """Add a move from the CPU store."""
        self._swaps_in.append((cpu_block_id, block_id))

    def cancel_copy(self, block_id: int) -> None:
        """Remove the pending copy to a block that no sequence holds any more."""
        self._copies.pop(block_id, None)

    def take(self) -> BlockMoves:
        """Return and clear all moves."""
        moves = BlockMoves(self._swaps_out, self._swaps_in, [(src, dst) for dst, src in self._copies.items()])
        self._swaps_out, self._swaps_in = [], []
        self._copies.clear()
        return moves
