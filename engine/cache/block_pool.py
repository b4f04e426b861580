"""Physical blocks: their ref counts, the free queue, and the index from hash to blocks.

    free queue   head                                                     tail
                 [ freed without a hash, newest first | free, never used | cached, least recently freed first ]
                   ^ allocate takes from here                     a hit revives from anywhere ^

Reusable content is evicted last, the least recently used first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from engine.cache.guards import IntegrityError, ensure
from engine.trace.holes import Hole, first_fit, holes_of
from engine.trace.operations import QueueEnd

MAX_HITS = 4  # recorded hits of a block, as in vLLM


@dataclass(slots=True)
class Block:
    """Physical block. `num_filled` slots, from slot 0, hold computed keys and values."""

    block_id: int
    ref_count: int = 0
    block_hash: bytes | None = None
    num_filled: int = 0
    allocated_at: int = 0  # step
    accessed_at: int = 0  # step of the allocation or the last hit
    num_hits: int = 0
    hits_at: list[int] = field(default_factory=list)  # steps of the last MAX_HITS hits


class Eviction(NamedTuple):
    """Hash that a block lost, with the figures of its residency in steps. The terms are vLLM's."""

    block_hash: bytes
    lifetime: int  # since the allocation
    idle: int  # since the last access
    num_hits: int
    reuse_gaps: list[int]  # between one hit and the next


class FreeQueue:
    """Ids of the blocks with ref_count 0, head first. Every operation except iteration is O(1)."""

    def __init__(self, block_ids: Iterable[int]) -> None:
        self._ids: OrderedDict[int, None] = OrderedDict.fromkeys(block_ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, block_id: int) -> bool:
        return block_id in self._ids

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def pop_head(self) -> int:
        """Remove and return the head. Raises KeyError if empty."""
        return self._ids.popitem(last=False)[0]

    def push(self, block_id: int, end: QueueEnd) -> None:
        """Add a block. Raises IntegrityError if it is already in the queue."""
        if block_id in self._ids:  # not `ensure`, which formats its message on every call
            raise IntegrityError(f"block {block_id} is in the free queue already", "double_free", block_id=block_id)
        self._ids[block_id] = None
        if end == "front":
            self._ids.move_to_end(block_id, last=False)

    def to_front(self, block_ids: range) -> None:
        """Move blocks of the queue to its head, in this order."""
        for block_id in reversed(block_ids):
            self._ids.move_to_end(block_id, last=False)

    def remove(self, block_id: int) -> None:
        """Remove a block. Raises KeyError if it is not in the queue."""
        del self._ids[block_id]


class BlockPool:
    """Blocks with the ids [first_block, first_block + num_blocks), initially free in ascending order.

    Ids are unique among all pools of a run, so a block id identifies its pool. Looking up another pool's block raises
    KeyError.

    Several blocks have the same hash if sequences compute the same content in one step. All of them stay cached.
    Lookups return the first one, or once it is evicted the next one.
    """

    def __init__(self, num_blocks: int, first_block: int = 0) -> None:
        self.first_block = first_block
        self.num_blocks = num_blocks
        self.blocks = {block_id: Block(block_id) for block_id in range(first_block, first_block + num_blocks)}
        self.free_queue = FreeQueue(self.blocks)
        self.step = 0  # clock of the residencies; set by the owner of the pool
        self._id_by_hash: dict[bytes, int] = {}  # the first block cached with the hash
        self._more_by_hash: dict[bytes, dict[int, None]] = {}  # further blocks with the hash; dicts as ordered sets
        self._num_cached_free = 0
        self._num_filled_held = 0

    @property
    def num_free(self) -> int:
        """Number of blocks with ref_count 0, cached ones included."""
        return len(self.free_queue)

    @property
    def num_held(self) -> int:
        """Number of blocks with ref_count > 0."""
        return self.num_blocks - len(self.free_queue)

    @property
    def num_cached_free(self) -> int:
        """Number of free blocks with a hash, which a hit can revive."""
        return self._num_cached_free

    @property
    def num_filled_held(self) -> int:
        """Number of filled physical slots in held blocks."""
        return self._num_filled_held

    def holes(self) -> list[Hole]:
        """Return the runs of adjacent free blocks, in ascending order. O(num_blocks)."""
        return holes_of((block.ref_count for block in self.blocks.values()), self.first_block)

    def reserve(self, num_blocks: int) -> Hole | None:
        """Make the next `num_blocks` allocations take the first hole that is large enough. Returns that hole.

        Returns None, and changes nothing, if no hole is large enough.
        """
        hole = first_fit(self.holes(), num_blocks)
        if hole is not None:
            self.free_queue.to_front(range(hole.block_id, hole.block_id + num_blocks))
        return hole

    def allocate(self) -> tuple[Block, Eviction | None]:
        """Allocate the head of the free queue, with ref_count 1. Also returns its eviction if it had a hash.

        Raises KeyError if no block is free.
        """
        block = self.blocks[self.free_queue.pop_head()]
        evicted = None
        if block.block_hash is not None:
            self._num_cached_free -= 1
            evicted = self._drop_hash(block)
        block.ref_count, block.num_filled = 1, 0
        block.allocated_at = block.accessed_at = self.step
        if block.num_hits:
            block.num_hits, block.hits_at = 0, []
        return block, evicted

    def share(self, block: Block) -> bool:
        """Add an owner. A free block is revived with its content and hash. Returns whether it was free."""
        revived = block.ref_count == 0
        if revived:
            self.free_queue.remove(block.block_id)
            self._num_filled_held += block.num_filled
            if block.block_hash is not None:
                self._num_cached_free -= 1
        block.ref_count += 1
        return revived

    def touch(self, block: Block) -> bool:
        """Add an owner by a prefix cache hit, which counts as an access. Returns whether the block was free."""
        block.num_hits += 1
        block.accessed_at = self.step
        block.hits_at = [*block.hits_at[1 - MAX_HITS :], self.step]
        return self.share(block)

    def free(self, block: Block) -> QueueEnd | None:
        """Remove an owner. Returns the end of the free queue to which the block was added; None if it is still held.

        A block with a hash is added at the back. A block without one is emptied and added at the front.
        """
        if block.ref_count <= 0:
            text = f"block {block.block_id} is released, but no sequence holds it"
            raise IntegrityError(text, "double_free", block_id=block.block_id)
        block.ref_count -= 1
        if block.ref_count > 0:
            return None
        self._num_filled_held -= block.num_filled
        end: QueueEnd
        if block.block_hash is None:
            block.num_filled, end = 0, "front"
        else:
            self._num_cached_free += 1
            end = "back"
        self.free_queue.push(block.block_id, end)
        return end

    def fill(self, block: Block, num_filled: int) -> None:
        """Mark slots [0, num_filled) of a held block as filled. Never reduces the number of filled slots."""
        if num_filled > block.num_filled:
            self._num_filled_held += num_filled - block.num_filled
            block.num_filled = num_filled

    def cut(self, block: Block, num_filled: int) -> None:
        """Mark the slots from `num_filled` on of a held block as empty."""
        if num_filled < block.num_filled:
            self._num_filled_held -= block.num_filled - num_filled
            block.num_filled = num_filled

    def find(self, block_hash: bytes) -> Block | None:
        """Return the first block cached with the hash."""
        block_id = self.find_id(block_hash)
        return None if block_id is None else self.blocks[block_id]

    def find_id(self, block_hash: bytes) -> int | None:
        """Return the id of the first block cached with the hash."""
        return self._id_by_hash.get(block_hash)

    def cache_full_block(self, block: Block, block_hash: bytes) -> None:
        """Set the hash of a held block that has none."""
        block_id = block.block_id
        if block.block_hash is not None:
            raise IntegrityError(f"block {block_id} has a hash already", "hashed_twice", block_id=block_id)
        if block.ref_count <= 0:
            text = f"block {block_id} gets a hash, but no sequence holds it"
            raise IntegrityError(text, "hash_unheld", block_id=block_id)
        block.block_hash = block_hash
        self._enter_index(block_id, block_hash)

    def uncache(self, block: Block) -> Eviction:
        """Drop the hash and the content of a held block that was not written."""
        ensure(
            block.ref_count > 0,
            f"block {block.block_id} is uncached, but no sequence holds it",
            "hash_unheld",
            block_id=block.block_id,
        )
        self._num_filled_held -= block.num_filled
        block.num_filled = 0
        return self._drop_hash(block)

    def _drop_hash(self, block: Block) -> Eviction:
        block_hash = block.block_hash
        assert block_hash is not None
        self._leave_index(block.block_id, block_hash)
        block.block_hash = None
        gaps = [after - before for before, after in pairwise(block.hits_at)] if block.hits_at else []
        return Eviction(block_hash, self.step - block.allocated_at, self.step - block.accessed_at, block.num_hits, gaps)

    def _enter_index(self, block_id: int, block_hash: bytes) -> None:
        if self._id_by_hash.setdefault(block_hash, block_id) != block_id:
            self._more_by_hash.setdefault(block_hash, {})[block_id] = None

    def _leave_index(self, block_id: int, block_hash: bytes) -> None:
        more = self._more_by_hash.get(block_hash)
        if more is None:
            del self._id_by_hash[block_hash]
            return
        if self._id_by_hash[block_hash] == block_id:
            block_id = self._id_by_hash[block_hash] = next(iter(more))
        del more[block_id]
        if not more:
            del self._more_by_hash[block_hash]

    def _ids_of(self, block_hash: bytes) -> list[int]:
        """Return the blocks of the index with the hash, in the order in which they were cached."""
        first = self._id_by_hash.get(block_hash)
        return [] if first is None else [first, *self._more_by_hash.get(block_hash, ())]

    def check_integrity(self) -> None:
        """Compare all counters and indices with a recount. Raises IntegrityError. O(num_blocks)."""
        free = list(self.free_queue)
        unheld = {b.block_id for b in self.blocks.values() if b.ref_count == 0}
        ensure(
            set(free) == unheld,
            f"the free queue has blocks {sorted(free)}, but no sequence holds blocks {sorted(unheld)}",
            "free_queue",
            said=len(free),
            counted=len(unheld),
        )
        for block in self.blocks.values():
            name = f"block {block.block_id}"
            ensure(
                block.ref_count >= 0,
                f"{name} has ref_count {block.ref_count}",
                "negative_count",
                block_id=block.block_id,
                said=block.ref_count,
            )
            if block.ref_count == 0 and block.block_hash is None:
                ensure(
                    block.num_filled == 0,
                    f"{name} is free without a hash, yet {block.num_filled} slots are filled",
                    "filled",
                    block_id=block.block_id,
                    said=block.num_filled,
                    counted=0,
                )
            if block.block_hash is not None:
                known = block.block_id in self._ids_of(block.block_hash)
                ensure(
                    known, f"{name} has a hash that is not in the index",
                    "unknown_hash", block_id=block.block_id,
                )  # fmt: skip
        for block_hash in self._id_by_hash.keys() | self._more_by_hash.keys():
            ids = self._ids_of(block_hash)
            has_blocks = block_hash not in self._more_by_hash or len(ids) > 1
            ensure(
                has_blocks and block_hash in self._id_by_hash,
                f"hash {block_hash.hex()} is in the index without a block",
                "empty_hash",
            )
            for block_id in ids:
                ensure(
                    self.blocks[block_id].block_hash == block_hash,
                    f"the index has block {block_id} under a hash that the block does not have",
                    "stale_index", block_id=block_id,
                )  # fmt: skip
        recounts = {
            "free cached blocks": (
                self._num_cached_free,
                sum(self.blocks[i].block_hash is not None for i in free),
            ),
            "filled slots": (
                self._num_filled_held,
                sum(b.num_filled for b in self.blocks.values() if b.ref_count > 0),
            ),
        }
        for name, (counter, recount) in recounts.items():
            ensure(
                counter == recount,
                f"the counter of {name} is {counter}, a recount gives {recount}",
                "counter",
                said=counter,
                counted=recount,
            )
