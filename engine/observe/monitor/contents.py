"""Converts events of a monitored instance to operations. Each cached content gets a place: a block id in the log."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from msgspec.structs import replace

from engine.observe.monitor.events import GPU, BlockRemoved, BlockStored, Event
from engine.trace.limits import MAX_BLOCKS
from engine.trace.operations import KnownReason, KnownSince, Op, Removed, Stored

Key = tuple[str, str, int, bytes]  # medium, store within the medium, group, hash


class Places:
    """Allocator of places outside the pools, shared by all instances."""

    def __init__(self) -> None:
        self._count = 0

    def allocate(self) -> int | None:
        """Return an unused place, or None if the log's limit is reached."""
        if self._count == MAX_BLOCKS:
            return None
        self._count += 1
        return self._count - 1


class Contents:
    """Cached contents of an instance.

    `num_unmatched`: removals of unknown contents, `num_unplaced`: contents that found no place; the caller resets both.
    """

    def __init__(self, first_block: int, num_blocks: int, outside: Places) -> None:
        """Track contents in the pool's places [first_block, first_block + num_blocks) and in places of `outside`."""
        self._pool = range(first_block, first_block + num_blocks)
        self._free = list(self._pool)
        self._outside, self._free_outside = outside, list[int]()
        self._place_of: dict[Key, int] = {}
        self._copies: dict[Key, int] = {}  # number of further copies
        self._stored: dict[Key, Stored] = {}  # as first reported
        self.num_in_pool = 0
        self.num_unmatched = 0
        self.num_unplaced = 0

    @property
    def keys(self) -> set[Key]:
        """Keys of the known contents."""
        return set(self._place_of)

    def ops(self, event: Event) -> list[Op]:
        """Return the operations of an event; [] unless it is a `BlockStored` or `BlockRemoved`."""
        if isinstance(event, BlockStored):
            stored = (self._store(event, index) for index in range(len(event.contents)))
            return [op for op in stored if op is not None]
        if isinstance(event, BlockRemoved):
            removed = (self._remove(event, one) for one in event.block_hashes)
            return [op for op in removed if op is not None]
        return []

    def forget(self, epoch: int, sequence: int, reason: KnownReason, num_missed: int = 0) -> KnownSince:
        """Drop all contents, which are unknown or empty from now on."""
        for (medium, *_), place in self._place_of.items():
            if medium != GPU:
                heapq.heappush(self._free_outside, place)
        self._place_of.clear()
        self._copies.clear()
        self._stored.clear()
        self._free, self.num_in_pool = list(self._pool), 0
        return KnownSince(epoch=epoch, sequence=sequence, reason=reason, num_missed=num_missed)

    def restate(self, outside: Places) -> Iterator[Stored]:
        """Yield all known contents, for the beginning of a new log.

        Allocates places outside the pools from `outside` from now on, so this must be called for every instance.
        """
        self._outside, self._free_outside = outside, []
        for key, stored in self._stored.items():
            if stored.outside:
                place = outside.allocate()
                assert place is not None  # the number of contents is unchanged
                self._place_of[key] = place
                self._stored[key] = stored = replace(stored, place=place)
            yield stored

    def _store(self, event: BlockStored, index: int) -> Stored | None:
        content = event.contents[index]
        key = _key(event, content.block_hash)
        is_outside = key[0] != GPU
        place, again = self._place_of.get(key), True
        if place is not None:
            # vLLM may report a block again when a request reuses it; that is not a further copy
            if is_outside or not event.may_be_reuse:
                self._copies[key] = self._copies.get(key, 0) + 1
        else:
            again = False
            place = self._allocate(is_outside)
            if place is None:
                self.num_unplaced += 1
                return None
            self._place_of[key] = place
            self.num_in_pool += not is_outside
        stored = Stored(
            place=place,
            outside=is_outside,
            medium=event.medium,
            block_hash=content.block_hash,
            parent_hash=content.parent_hash,
            parent_unsaid=content.parent_unsaid,
            token_ids=content.token_ids,
            group=event.group,
            kind=event.kind,
            window=event.window,
            lora_name=event.lora_name,
            extra_keys=content.extra_keys,
            locality=event.locality,
            tier=event.tier,
            again=again,
        )
        self._stored.setdefault(key, stored)
        return stored

    def _allocate(self, is_outside: bool) -> int | None:
        """Allocate the lowest free place, or return None."""
        free = self._free_outside if is_outside else self._free
        if free:
            return heapq.heappop(free)
        return self._outside.allocate() if is_outside else None

    def _remove(self, event: BlockRemoved, block_hash: bytes) -> Removed | None:
        key = _key(event, block_hash)
        is_outside = key[0] != GPU
        place, copies = self._place_of.get(key), self._copies.pop(key, 0)
        if place is None:
            self.num_unmatched += 1
            return None
        if copies > 1:
            self._copies[key] = copies - 1
        elif not copies:
            del self._place_of[key], self._stored[key]
            if is_outside:
                heapq.heappush(self._free_outside, place)
            else:
                heapq.heappush(self._free, place)
                self.num_in_pool -= 1
        return Removed(
            place=place,
            outside=is_outside,
            medium=event.medium,
            block_hash=block_hash,
            group=event.group,
            tier=event.tier,
            num_left=copies,
        )


def _key(event: BlockStored | BlockRemoved, block_hash: bytes) -> Key:
    """Return the key of a content. Without a medium it is in the GPU; without a group it is in group 0."""
    return event.medium or GPU, event.tier or "", event.group or 0, block_hash
