"""External content that is loaded into the pool, by logical block of a sequence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from engine.trace.operations import RELEASED, AllocateReason, Medium


class BlockSource(NamedTuple):
    """Source of a block's content outside the pool: a store, or another instance's pool."""

    block_hash: bytes = b""
    medium: Medium = "cpu"
    block_id: int = 0  # block id in the other instance's pool


class Incoming(NamedTuple):
    """External content for a group of layers. The logical blocks `logicals`, a subset of [begin, end), receive it.

    The other entries of that range are RELEASED, because no later query of the sequence sees them.
    """

    reason: AllocateReason  # reason to allocate the blocks in `logicals`
    begin: int
    end: int
    logicals: frozenset[int]

    @property
    def num_released(self) -> int:
        """Number of table entries without a block."""
        return self.end - self.begin - len(self.logicals)

    def is_released(self, logical: int) -> bool:
        """Return whether the entry gets no block."""
        return self.begin <= logical < self.end and logical not in self.logicals


NOTHING = Incoming("admission", 0, 0, frozenset())


class Loading(NamedTuple):
    """External blocks that a sequence loads on admission: in each group, the needed ones of [first, end)."""

    first: int  # logical block: the number of blocks that hit
    end: int
    sources: Sequence[Mapping[int, BlockSource]]  # of each group, by logical block
    num_tokens: int  # computed tokens after the loading; the last block may be partial
    is_later: bool = False  # content arrives between two steps, after the allocation: see `KVCacheManager.receive`

    def of(self, group: int) -> Incoming:
        """Return the blocks of one group."""
        reason: AllocateReason = "receive" if self.is_later else "load"
        return Incoming(reason, self.first, self.end, frozenset(self.sources[group]))

    @classmethod
    def received(
        cls,
        tables: Sequence[Sequence[int]],
        needed: Sequence[Iterable[int]],
        block_size: int,
        first_token: int,
        end: int,
    ) -> Loading:
        """Return the loading of positions [first_token, end) from another instance's block tables.

        `first_token` begins a block. `needed`: for each group, the logical blocks of [0, end) that a later query sees.
        """
        first = first_token // block_size
        sources: list[dict[int, BlockSource]] = []
        for group, logicals in enumerate(needed):
            table = tables[group] if group < len(tables) else ()
            block_ids = {i: table[i] if i < len(table) else RELEASED for i in logicals if i >= first}
            sources.append({i: BlockSource(block_id=block_id) for i, block_id in block_ids.items()})
        return cls(first, -(-end // block_size), sources, end, is_later=True)
