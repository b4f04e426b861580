"""Model of another engine's block pool and block tables. The engine's calls update it, and it emits operations.

A call that contradicts the model raises WatchError, so that a trace is never wrong.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from engine.cache.prefix_memory import EvictedBlocks, LostBlock
from engine.observe.vllm_recorder.errors import WatchError
from engine.trace.operations import (
    RELEASED,
    Allocate,
    AllocateReason,
    Cache,
    Evict,
    Free,
    FreeReason,
    Op,
    QueueEnd,
    Release,
    Requeue,
    Share,
    Write,
)
from engine.trace.records import Memory

MAX_HITS = 4  # number of last hits per block whose steps are recorded


@dataclass(slots=True)
class Block:
    """State of a block of the pool."""

    ref_count: int = 0
    block_hash: bytes | None = None
    num_filled: int = 0
    allocated_at: int = 0  # step
    accessed_at: int = 0
    num_hits: int = 0
    hits_at: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Table:
    """Block table of a sequence and its number of computed tokens. Released entries are RELEASED."""

    seq_id: int
    block_ids: list[int] = field(default_factory=list)
    num_computed: int = 0
    num_released: int = 0
    num_logical: int = 0  # computed tokens in held blocks


class Blocks:
    """Model of the pool. The caller sets `step` (number of finished steps) and `record` (index of the next record)."""

    def __init__(self, num_blocks: int, block_size: int, kv_bytes_per_token: int, emit: Callable[[Op], None]) -> None:
        self.step = self.record = 0
        self.num_blocks, self.block_size = num_blocks, block_size
        self.evicted = EvictedBlocks()
        self._kv_bytes_per_token = kv_bytes_per_token
        self._emit = emit
        self._blocks = [Block() for _ in range(num_blocks)]
        self._ids_by_hash: dict[bytes, OrderedDict[int, None]] = {}
        self._num_held = self._num_cached = self._num_filled = self._num_logical = 0

    @property
    def num_free(self) -> int:
        """Number of blocks that no sequence holds."""
        return self.num_blocks - self._num_held

    def is_free(self, block_id: int) -> bool:
        """Return whether no sequence holds the block."""
        return self._block(block_id).ref_count == 0

    def find(self, hashes: Sequence[bytes], num_tokens: int) -> list[int]:
        """Return the blocks of the longest cached prefix of at most `num_tokens` - 1 tokens."""
        found = []
        for block_hash in hashes[: (num_tokens - 1) // self.block_size]:
            ids = self._ids_by_hash.get(block_hash)
            if not ids:
                break
            found.append(next(iter(ids)))
        return found

    # allocation

    def share(self, table: Table, hits: Sequence[int]) -> None:
        """Begin the table with the blocks that hit. `hits`: block ids, RELEASED outside the window."""
        _expect(not table.block_ids, f"sequence {table.seq_id} hits blocks while it holds others")
        for logical, block_id in enumerate(hits):
            table.block_ids.append(block_id)
            if block_id == RELEASED:
                table.num_released += 1
                continue
            block = self._block(block_id)
            revived = block.ref_count == 0
            if revived:
                self._num_held += 1
                self._num_cached -= block.block_hash is not None
                self._num_filled += block.num_filled
            block.ref_count += 1
            block.num_hits += 1
            block.accessed_at = self.step
            block.hits_at = [*block.hits_at[1 - MAX_HITS :], self.step]
            self._emit(Share(seq_id=table.seq_id, block_id=block_id, logical=logical, revived=revived))
        table.num_computed = len(hits) * self.block_size
        self._count(table)

    def allocate(self, table: Table, block_ids: Sequence[int], reason: AllocateReason) -> None:
        """Append new blocks to the table and evict their old contents."""
        for block_id in block_ids:
            block = self._block(block_id)
            _expect(block.ref_count == 0, f"block {block_id} is allocated with ref_count {block.ref_count}")
            if block.block_hash is not None:
                self._num_cached -= 1
                self.evict(block_id, table.seq_id)
            block.ref_count, block.num_filled = 1, 0
            block.allocated_at = block.accessed_at = self.step
            block.num_hits, block.hits_at = 0, []
            self._num_held += 1
            logical = len(table.block_ids)
            table.block_ids.append(block_id)
            self._emit(Allocate(seq_id=table.seq_id, block_id=block_id, logical=logical, reason=reason))
        self._count(table)

    def evict(self, block_id: int, seq_id: int | None) -> None:
        """Evict the block's hash. `seq_id`: sequence that allocates the block; None: the cache is reset."""
        block = self._block(block_id)
        block_hash = block.block_hash
        _expect(block_hash is not None, f"block {block_id} is evicted without a hash")
        assert block_hash is not None
        ids = self._ids_by_hash[block_hash]
        del ids[block_id]
        if not ids:
            del self._ids_by_hash[block_hash]
        block.block_hash = None
        if seq_id is not None:
            self.evicted.add(block_hash, LostBlock(block_id, self.record, seq_id))
        self._emit(
            Evict(
                block_id=block_id,
                block_hash=block_hash,
                seq_id=seq_id,
                lifetime_steps=self.step - block.allocated_at,
                idle_steps=self.step - block.accessed_at,
                num_hits=block.num_hits,
                reuse_gap_steps=[after - before for before, after in pairwise(block.hits_at)],
            )
        )

    def forget_all(self) -> None:
        """Reset the cache: evict every hash. No block may be held."""
        for block_id, block in enumerate(self._blocks):
            if block.block_hash is None:
                continue
            _expect(block.ref_count == 0, f"the cache is reset while block {block_id} is held")
            self._num_cached -= 1
            self.evict(block_id, None)
            block.num_filled = 0

    def cache(
        self, table: Table, logical: int, block_hash: bytes, parent_hash: bytes | None, token_ids: list[int]
    ) -> None:
        """Set the hash of a full block of the table."""
        block_id = table.block_ids[logical]
        block = self._block(block_id)
        _expect(block.block_hash is None, f"block {block_id} is cached while it has a hash")
        block.block_hash = block_hash
        self._ids_by_hash.setdefault(block_hash, OrderedDict())[block_id] = None
        self._emit(
            Cache(
                seq_id=table.seq_id,
                block_id=block_id,
                logical=logical,
                block_hash=block_hash,
                parent_hash=parent_hash,
                token_ids=token_ids,
            )
        )

    def write(self, table: Table, num_tokens: int) -> None:
        """Add `num_tokens` computed tokens to the sequence's blocks."""
        start, end, size = table.num_computed, table.num_computed + num_tokens, self.block_size
        for logical in range(start // size, -(-end // size)):
            block = self._block(table.block_ids[logical])
            filled = min(size, end - logical * size)
            if filled > block.num_filled:
                self._num_filled += filled - block.num_filled
                block.num_filled = filled
        table.num_computed = end
        self._count(table)
        self._emit(Write(seq_id=table.seq_id, start=start, num_tokens=num_tokens))

    # release

    def release(self, table: Table, block_ids: Sequence[int]) -> None:
        """Release blocks outside the window, in the order of the call."""
        to_front = []
        for block_id in block_ids:
            logical = table.block_ids.index(block_id)
            table.block_ids[logical] = RELEASED
            table.num_released += 1
            to = self._remove_owner(block_id)
            if to == "front":
                to_front.append(block_id)
            self._emit(Release(seq_id=table.seq_id, block_id=block_id, logical=logical, reason="window", to=to))
        self._requeue_together(to_front)
        self._count(table)

    def free(self, table: Table, block_ids: Sequence[int], reason: FreeReason) -> None:
        """Free all blocks of the table, last first. Blocks without a hash go to the head of the queue in that order."""
        held = [block_id for block_id in reversed(table.block_ids) if block_id != RELEASED]
        _expect(list(block_ids) == held, f"sequence {table.seq_id} frees {list(block_ids)} while it holds {held}")
        to_front = []
        for block_id in held:
            to = self._remove_owner(block_id)
            if to == "front":
                to_front.append(block_id)
            self._emit(Free(seq_id=table.seq_id, block_id=block_id, to=to, reason=reason))
        self._requeue_together(to_front)
        table.block_ids, table.num_computed, table.num_released = [], 0, 0
        self._count(table)

    def memory(self) -> Memory:
        return Memory.counted(
            num_blocks=self.num_blocks,
            block_size=self.block_size,
            blocks_held=self._num_held,
            blocks_cached=self._num_cached,
            tokens_held=self._num_filled,
            tokens_logical=self._num_logical,
            kv_bytes_per_token=self._kv_bytes_per_token,
        )

    def _requeue_together(self, to_front: list[int]) -> None:
        """Record that blocks were moved to the queue's head together. Single moves would reverse their order."""
        if len(to_front) > 1:
            self._emit(Requeue(block_ids=to_front))

    def _remove_owner(self, block_id: int) -> QueueEnd | None:
        block = self._block(block_id)
        _expect(block.ref_count > 0, f"block {block_id} is freed while no sequence holds it")
        block.ref_count -= 1
        if block.ref_count:
            return None
        self._num_held -= 1
        self._num_filled -= block.num_filled
        if block.block_hash is None:
            block.num_filled = 0
            return "front"
        self._num_cached += 1
        return "back"

    def _count(self, table: Table) -> None:
        now = table.num_computed - table.num_released * self.block_size if table.block_ids else 0
        self._num_logical += now - table.num_logical
        table.num_logical = now

    def _block(self, block_id: int) -> Block:
        _expect(0 <= block_id < self.num_blocks, f"there is no block {block_id}")
        return self._blocks[block_id]


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise WatchError(otherwise)
