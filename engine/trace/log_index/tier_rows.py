"""Tiers that have contents of the pool, from a monitored server's reports or an engine's stores and loads."""

from __future__ import annotations

from collections.abc import Iterable

from engine.trace.operations import KnownSince, Load, Removed, Store, Stored
from engine.trace.records import StepRecord
from engine.trace.state import State
from engine.trace.tables import group_of

MAX_MEDIA = 3  # number of bits; further media share the last bit
TIER_OPS = frozenset((Stored, Removed, Store, Load, KnownSince))
Key = tuple[int, bytes]  # instance, hash


class TierRows:
    """Bit mask, for each block, of the media outside the pool that also have its content: 1 << index in `media`.

    An engine's own log has stores and loads, but no removals from a tier, so its bits are never cleared.
    """

    def __init__(self) -> None:
        self.media: list[str] = []  # in order of first occurrence
        self._copies: dict[Key, list[int]] = {}  # content -> number of copies in each medium
        self._blocks: dict[Key, set[int]] | None = None  # content -> pool blocks; None: no content outside the pool yet
        self._keys: dict[int, Key] = {}  # inverse of `_blocks`

    def add(self, record: StepRecord, state: State, touched: Iterable[int]) -> dict[int, int]:
        """Read the next record. `state`: state after it. `touched`: the blocks that it concerns.

        Returns the bits of these blocks, and of all other blocks whose bits changed.
        """
        changed = dict.fromkeys(touched)
        if self._blocks is not None:
            self._map_blocks(changed, state, self._blocks)
        for op in record.ops:
            if type(op) not in TIER_OPS:
                continue
            match op:
                case Stored(outside=True, again=False):
                    self._count(state, changed, (record.instance, op.block_hash), _name(op), 1)
                case Removed(outside=True, num_left=0):
                    self._count(state, changed, (record.instance, op.block_hash), _name(op), -1)
                case Store() | Load():
                    self._count(state, changed, (record.instance, op.block_hash), op.medium, 1)
                case KnownSince():
                    self._copies = {key: counts for key, counts in self._copies.items() if key[0] != record.instance}
                case _:
                    pass
        if not self._copies:
            return dict.fromkeys(changed, 0)
        return {block_id: self._bits(block_id, state) for block_id in changed}

    def _bits(self, block_id: int, state: State) -> int:
        """Return the media bits of a block's content."""
        if (key := _key(state, block_id)) is None:
            return 0
        return sum(1 << bit for bit, count in enumerate(self._copies.get(key, ())) if count > 0)

    def _count(self, state: State, changed: dict[int, None], key: Key, name: str, by: int) -> None:
        if self._blocks is None:
            self._blocks = {}
            self._map_blocks(range(len(state.blocks)), state, self._blocks)
        if name not in self.media:
            self.media.append(name)
        bit = min(self.media.index(name), MAX_MEDIA - 1)
        self._copies.setdefault(key, [0] * MAX_MEDIA)[bit] += by
        changed.update(dict.fromkeys(self._blocks.get(key, ())))

    def _map_blocks(self, block_ids: Iterable[int], state: State, blocks: dict[Key, set[int]]) -> None:
        """Update the maps between blocks and contents."""
        for block_id in block_ids:
            before, now = self._keys.pop(block_id, None), _key(state, block_id)
            if before is not None and before != now:
                blocks[before].discard(block_id)
                if not blocks[before]:
                    del blocks[before]
            if now is not None:
                self._keys[block_id] = now
                blocks.setdefault(now, set()).add(block_id)


def _key(state: State, block_id: int) -> Key | None:
    block_hash = state.blocks[block_id].block_hash
    if block_hash is None:
        return None
    has_instances = len(state.own_groups) > 1
    return state.block_groups[group_of(state, block_id)].instance if has_instances else 0, block_hash


def _name(op: Stored | Removed) -> str:
    """Return the medium's name as reported."""
    return f"{op.medium} {op.tier}" if op.tier else op.medium or "?"
