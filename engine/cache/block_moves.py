"""Whole blocks that the KV store has to copy before a step's forward pass."""

from __future__ import annotations

from typing import Literal, NamedTuple

Tier = Literal["device", "cpu"]

# The kinds of moves, in the order in which a step carries them out: content is safe in the CPU store before its block
# is overwritten, and what comes back is there before it is copied.
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
    """Moves that were decided and not carried out yet.

    Every copy's dst is distinct and no dst is the src of a later pair, so one gather and one scatter do as well.
    """

    def __init__(self) -> None:
        self._copies: dict[int, int] = {}  # dst -> src, in order
        self._swaps_out: list[tuple[int, int]] = []
        self._swaps_in: list[tuple[int, int]] = []

    @property
    def fills_blocks(self) -> bool:
        """Whether a block still waits for its content."""
        return bool(self._copies or self._swaps_in)

    def copy(self, src: int, dst: int) -> None:
        """Copy-on-write."""
        self._copies[dst] = src

    def swap_out(self, block_id: int, cpu_block_id: int) -> None:
        """To the CPU store. A block that waits for a copy has its content in the copy's source: swaps come first."""
        self._swaps_out.append((self._copies.get(block_id, block_id), cpu_block_id))

    def swap_in(self, cpu_block_id: int, block_id: int) -> None:
        """Back from the CPU store."""
        self._swaps_in.append((cpu_block_id, block_id))

    def given_away(self, block_id: int) -> None:
        """Cancel a copy to a block that no sequence holds."""
        self._copies.pop(block_id, None)

    def take(self) -> BlockMoves:
        """Return all of them, and clear them."""
        moves = BlockMoves(self._swaps_out, self._swaps_in, [(src, dst) for dst, src in self._copies.items()])
        self._swaps_out, self._swaps_in = [], []
        self._copies.clear()
        return moves
