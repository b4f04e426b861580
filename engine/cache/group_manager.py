"""Blocks of one group of layers: its pool, its blocks of the CPU store, and its block table of each sequence.

`KVCacheManager` has one manager per group, and handles what concerns all groups of a sequence. A group manager changes
the blocks of its group and emits a trace operation for every change, in order. Block ids are those of the trace: the
group's pool begins at its `first_block`. `swapping` moves blocks to and from the CPU store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.cache.block_groups import GroupPlan
from engine.cache.block_moves import PendingMoves
from engine.cache.block_pool import Block, BlockPool, Eviction
from engine.cache.block_table import BlockTables, check_tables
from engine.cache.cache_figures import BlockDemand
from engine.cache.guards import MisuseError, ensure
from engine.cache.incoming import NOTHING, BlockSource, Incoming
from engine.cache.prefix_cache import HashChain
from engine.cache.prefix_memory import EvictedBlocks, LostBlock
from engine.cache.swap_space import SwapSpace
from engine.trace.operations import (
    RELEASED,
    Allocate,
    AllocateReason,
    Cache,
    Copy,
    Evict,
    Free,
    FreeReason,
    Load,
    Op,
    Receive,
    Release,
    ReleaseReason,
    Reserve,
    Share,
)
from engine.trace.records import Memory


class GroupManager:
    """Manager of a group's blocks. The argument `tables` has the block tables of sequence `seq_id`, of all groups."""

    def __init__(
        self,
        index: int,
        plan: GroupPlan,
        block_size: int,
        swap_space: int,
        kv_bytes_per_token: int,
        promised: dict[int, int],
        emit: Callable[[Op], None],
    ) -> None:
        """Set up the group.

        Args:
            index: position of the group among all groups.
            swap_space: number of its blocks in the CPU store.
            kv_bytes_per_token: bytes of all its layers together.
            promised: block id -> sequence that will write it in this step; shared by all groups.
        """
        self.index = index
        self.block_size = block_size
        self.num_blocks = plan.num_blocks
        self.retention = plan.retention
        self.contiguous = plan.contiguous
        self.pool = BlockPool(plan.num_blocks, plan.first_block)
        self.swap_space = SwapSpace(swap_space, plan.first_cpu_block + index * swap_space)
        self.evicted = EvictedBlocks()
        self.moves = PendingMoves()
        self.tokens_logical = 0  # computed tokens in held blocks, counted per sequence
        self.record_index = 0  # index of the record that will contain the next operations
        self._kv_bytes_per_token = kv_bytes_per_token
        self._state_bytes = plan.state_bytes
        self.kv_bytes_per_block = plan.state_bytes or kv_bytes_per_token * block_size
        self.promised = promised
        self.emit = emit

    # demand

    def max_demand(self, num_slots: int, tokens_a_step: int) -> BlockDemand:
        """Return the maximum number of blocks of a sequence of `num_slots` tokens, and the size of the pool.

        `tokens_a_step`: maximum tokens of a sequence in one step.
        """
        needed = self._num_blocks_of(num_slots)
        if self.retention is not None:
            needed = min(needed, self.retention.max_blocks(tokens_a_step, self.block_size))
        return BlockDemand(needed, self.num_blocks)

    def demand(
        self,
        seq_id: int,
        tables: BlockTables,
        num_tokens: int,
        hits: Sequence[int],
        incoming: Incoming = NOTHING,
        reserved: int = 0,
    ) -> BlockDemand:
        """Return the blocks that `take_hits` and `cover` would take from the free queue. Changes nothing.

        `reserved`: tokens to count instead of `num_tokens`, if it is larger. A group that releases blocks ignores it,
        because it never holds all blocks of a sequence.
        """
        if self.retention is None:
            num_tokens = max(num_tokens, reserved)
        first = len(tables.block_ids[self.index]) + len(hits)
        if self.retention is not None and self.retention.checkpoint:
            num_new = len(incoming.logicals) + self.retention.num_stored(
                max(first, incoming.end), num_tokens, self.block_size
            )
            num_new += len(self.missing_state_blocks(tables, num_tokens))
        else:
            num_new = self._num_blocks_of(num_tokens) - first - incoming.num_released
        num_revived = sum(self.pool.blocks[i].ref_count == 0 for i in hits if i != RELEASED)
        num_copies = len(self.shared_before_write(seq_id, tables, num_tokens))
        if self.contiguous:
            largest = max((hole.num_blocks for hole in self.pool.holes()), default=0)
            return BlockDemand(max(num_new, 0), largest, self.pool.num_free)
        return BlockDemand(max(num_new, 0) + num_copies, self.pool.num_free - num_revived)

    def shared_before_write(self, seq_id: int, tables: BlockTables, num_tokens: int) -> list[int]:
        """Return the logical blocks of positions [num_computed, num_tokens) that are shared and must be copied.

        A shared block is not copied if this sequence promised it.
        """
        blocks, block_ids = self.pool.blocks, tables.block_ids[self.index]
        shared = []
        for logical in range(
            tables.num_computed // self.block_size, min(self._num_blocks_of(num_tokens), len(block_ids))
        ):
            if block_ids[logical] == RELEASED:
                continue  # no step stores a state in it
            block = blocks[block_ids[logical]]
            if block.ref_count > 1 and self.promised.get(block.block_id) != seq_id:
                shared.append(logical)
        return shared

    def missing_state_blocks(self, tables: BlockTables, num_tokens: int) -> list[int]:
        """Return the entries without a block for which a step up to `num_tokens` needs one to store a state.

        They exist if the table was allocated for a longer step that was not computed.
        """
        retention, size, block_ids = self.retention, self.block_size, tables.block_ids[self.index]
        if retention is None or not retention.checkpoint:
            return []
        computed = range(tables.num_computed // size, min(self._num_blocks_of(num_tokens), len(block_ids)))
        return [i for i in computed if block_ids[i] == RELEASED and retention.stores_in(i, num_tokens, size)]

    # allocation

    def take_hits(self, seq_id: int, tables: BlockTables, hits: Sequence[int]) -> None:
        """Append hit blocks to an empty table. Entries that no later query sees are RELEASED."""
        for logical, block_id in enumerate(hits):
            tables.block_ids[self.index].append(block_id)
            if block_id == RELEASED:
                tables.num_released[self.index] += 1
                continue
            revived = self.pool.touch(self.pool.blocks[block_id])
            self.emit(Share(seq_id=seq_id, block_id=block_id, logical=logical, revived=revived))
        if hits:
            self.tokens_logical += tables.num_tokens(self.index, self.block_size)

    def cover(
        self, seq_id: int, tables: BlockTables, num_tokens: int, reason: AllocateReason, incoming: Incoming = NOTHING
    ) -> None:
        """Make positions [num_computed, num_tokens) writable: copy shared blocks, then allocate new ones.

        `incoming`: blocks that the caller fills. `reason`: reason recorded for the other new blocks.
        """
        block_ids = tables.block_ids[self.index]
        for logical in self.shared_before_write(seq_id, tables, num_tokens):
            block_ids[logical] = self._copy_on_write(seq_id, logical, block_ids[logical])
        for logical in self.missing_state_blocks(tables, num_tokens):
            block_ids[logical] = self._allocate(seq_id, logical, reason).block_id
            tables.num_released[self.index] -= 1
            self.tokens_logical += self.block_size
        if self.contiguous and not block_ids:
            self._reserve(seq_id, self._num_blocks_of(num_tokens))
        retention, size = self.retention, self.block_size
        for logical in range(len(block_ids), self._num_blocks_of(num_tokens)):
            if incoming.is_released(logical):
                block_ids.append(RELEASED)
                continue
            if logical >= incoming.end and retention is not None and not retention.stores_in(logical, num_tokens, size):
                block_ids.append(RELEASED)
                tables.num_released[self.index] += 1
                self.tokens_logical -= size
                continue
            block = self._allocate(seq_id, logical, incoming.reason if logical in incoming.logicals else reason)
            block_ids.append(block.block_id)
        tables.num_released[self.index] += incoming.num_released
        self.tokens_logical -= incoming.num_released * self.block_size  # as in `BlockTables.num_tokens`

    def load(self, seq_id: int, tables: BlockTables, sources: Mapping[int, BlockSource]) -> None:
        """Mark blocks that `cover` allocated for external content as full. The caller loads the content."""
        block_ids = tables.block_ids[self.index]
        for logical, source in sources.items():
            block = self.pool.blocks[block_ids[logical]]
            self.pool.fill(block, self.block_size)
            self.emit(
                Load(
                    seq_id=seq_id,
                    logical=logical,
                    block_id=block.block_id,
                    block_hash=source.block_hash,
                    medium=source.medium,
                    num_bytes=self.kv_bytes_per_block,
                )
            )

    def receive(self, seq_id: int, tables: BlockTables, sources: Mapping[int, BlockSource], num_tokens: int) -> None:
        """Mark the blocks that were received from another instance, up to `num_tokens`, as filled."""
        block_ids = tables.block_ids[self.index]
        for logical, source in sources.items():
            block = self.pool.blocks[block_ids[logical]]
            filled = min(self.block_size, num_tokens - logical * self.block_size)
            self.pool.fill(block, filled)
            self.emit(
                Receive(
                    seq_id=seq_id,
                    logical=logical,
                    block_id=block.block_id,
                    from_block_id=source.block_id,
                    num_tokens=filled,
                    num_bytes=self.kv_bytes_per_block,
                )
            )

    def _reserve(self, seq_id: int, num_blocks: int) -> None:
        hole = self.pool.reserve(num_blocks)
        assert hole is not None, "`demand` checks that a hole is large enough"
        self.emit(Reserve(seq_id=seq_id, block_id=hole.block_id, num_blocks=num_blocks, hole_blocks=hole.num_blocks))

    def _allocate(self, seq_id: int, logical: int, reason: AllocateReason) -> Block:
        block, evicted = self.pool.allocate()
        if evicted is not None:
            self._evict(block.block_id, evicted, seq_id)
        self.emit(Allocate(seq_id=seq_id, block_id=block.block_id, logical=logical, reason=reason))
        return block

    def _copy_on_write(self, seq_id: int, logical: int, block_id: int) -> int:
        src = self.pool.blocks[block_id]
        dst = self._allocate(seq_id, logical, "copy")
        self.pool.free(src)  # still held by its other owners
        self.pool.fill(dst, src.num_filled)
        self.moves.copy(block_id, dst.block_id)
        self.emit(Copy(seq_id=seq_id, logical=logical, src=block_id, dst=dst.block_id))
        return dst.block_id

    def share_all(self, tables: BlockTables) -> None:
        """Add an owner to every block of these tables, for a fork."""
        for _, block_id in tables.held(self.index):
            self.pool.share(self.pool.blocks[block_id])
        self.tokens_logical += tables.num_tokens(self.index, self.block_size)

    # hashes

    def unhashed(self, tables: BlockTables, num_full: int) -> list[tuple[int, Block]]:
        """Return (logical, block) of each of the first `num_full` blocks that has no hash yet.

        Raises MisuseError if one is shared and not written yet, because it cannot be promised.
        """
        blocks, size, found = self.pool.blocks, self.block_size, list[tuple[int, Block]]()
        for logical, block_id in enumerate(
            tables.block_ids[self.index][tables.num_hashed : num_full], tables.num_hashed
        ):
            if block_id == RELEASED:
                continue
            block = blocks[block_id]
            if block.block_hash is not None:
                continue
            if block.num_filled < size and block.ref_count > 1:
                raise MisuseError(
                    f"block {block.block_id} is shared and unwritten: allocate must copy it first",
                    "shared_promise", block_id=block.block_id,
                )  # fmt: skip
            found.append((logical, block))
        return found

    def cache(
        self, seq_id: int, unhashed: Sequence[tuple[int, Block]], token_ids: Sequence[int], chain: HashChain
    ) -> None:
        """Set the hashes of these blocks from `chain`. Blocks that are not filled yet become promised."""
        size = self.block_size
        for logical, block in unhashed:
            if block.num_filled < size:
                self.promised[block.block_id] = seq_id
            block_hash = chain.hash_at(logical, token_ids)
            self.pool.cache_full_block(block, block_hash)
            self.emit(
                Cache(
                    seq_id=seq_id,
                    block_id=block.block_id,
                    logical=logical,
                    block_hash=block_hash,
                    parent_hash=chain.parent_of(logical),
                    token_ids=list(token_ids[logical * size : (logical + 1) * size]),
                )
            )

    def uncache(self, block_id: int, seq_id: int | None) -> None:
        """Drop the hash of a block of this group that was not written. `seq_id`: sequence that promised it."""
        block = self.pool.blocks.get(block_id)
        if block is not None and block.block_hash:
            self._evict(block_id, self.pool.uncache(block), seq_id, had_content=False)

    def _evict(self, block_id: int, eviction: Eviction, seq_id: int | None, had_content: bool = True) -> None:
        """Emit an eviction. Remember it to explain later misses if the block had content."""
        if had_content and seq_id is not None:
            self.evicted.add(eviction.block_hash, LostBlock(block_id, self.record_index, seq_id))
        self.emit(
            Evict(
                block_id=block_id,
                block_hash=eviction.block_hash,
                seq_id=seq_id,
                lifetime_steps=eviction.lifetime,
                idle_steps=eviction.idle,
                num_hits=eviction.num_hits,
                reuse_gap_steps=eviction.reuse_gaps,
            )
        )

    # content

    def write(self, tables: BlockTables, logical: int, end: int) -> None:
        """Mark positions [num_computed, end), which begin in block `logical`, as written."""
        pool, size, block_ids = self.pool, self.block_size, tables.block_ids[self.index]
        self.tokens_logical += end - tables.num_computed
        while (room := end - logical * size) > 0:
            block_id = block_ids[logical]
            if room < size:
                pool.fill(pool.blocks[block_id], room)
                return
            if block_id != RELEASED:
                pool.fill(pool.blocks[block_id], size)
                self.promised.pop(block_id, None)
            logical += 1

    # release

    def release(self, seq_id: int, tables: BlockTables) -> None:
        """Release the blocks that no later query sees, the last one first. Their table entries become RELEASED."""
        if self.retention is None:
            return
        end = self.retention.end(tables.num_computed, self.block_size)
        self._release(seq_id, tables, self._releasable(tables, end), self.retention.reason)

    def release_forgotten(self, seq_id: int, tables: BlockTables, logicals: Sequence[int]) -> None:
        """Release full blocks whose tokens every head has forgotten, the last one first, except the last entry."""
        block_ids = tables.block_ids[self.index]
        held = [i for i in reversed(logicals) if i < len(block_ids) - 1 and block_ids[i] != RELEASED]
        self._release(seq_id, tables, held, "forgotten")

    def _release(self, seq_id: int, tables: BlockTables, logicals: Sequence[int], reason: ReleaseReason) -> None:
        block_ids = tables.block_ids[self.index]
        for logical in logicals:
            block = self.pool.blocks[block_ids[logical]]
            ensure(
                self.promised.get(block.block_id) != seq_id,
                f"block {block.block_id} is released, but not written",
                "unwritten",
                block_id=block.block_id,
            )
            block_ids[logical] = RELEASED
            tables.num_released[self.index] += 1
            self.tokens_logical -= self.block_size
            self.emit(
                Release(
                    seq_id=seq_id,
                    block_id=block.block_id,
                    logical=logical,
                    reason=reason,
                    to=self.pool.free(block),
                )
            )

    def _releasable(self, tables: BlockTables, end: int) -> list[int]:
        """Return the logical blocks before `end` that can be released, the last one first."""
        assert self.retention is not None
        block_ids, num_released = tables.block_ids[self.index], tables.num_released[self.index]
        if not self.retention.checkpoint:
            return list(reversed(range(self.retention.first(self.block_size) + num_released, end)))
        left = len(block_ids) - num_released  # blocks of states are sparse, and near the end
        found, logical = list[int](), len(block_ids)
        while left:
            logical -= 1
            if block_ids[logical] != RELEASED:
                left -= 1
                if logical < end:
                    found.append(logical)
        return found

    def truncate(self, seq_id: int, tables: BlockTables, num_tokens: int) -> None:
        """Discard the content of positions from `num_tokens` on, and free blocks that become empty.

        In a contiguous group no block is freed.
        """
        block_ids, size = tables.block_ids[self.index], self.block_size
        self.tokens_logical -= tables.num_computed - num_tokens
        while not self.contiguous and len(block_ids) > self._num_blocks_of(num_tokens):
            block_id = block_ids.pop()
            end = self.pool.free(self.pool.blocks[block_id])
            self.emit(Free(seq_id=seq_id, block_id=block_id, to=end, reason="take_back"))
        for logical in range(num_tokens // size, len(block_ids)):
            self.pool.cut(self.pool.blocks[block_ids[logical]], max(num_tokens - logical * size, 0))

    def free(self, seq_id: int, tables: BlockTables, reason: FreeReason) -> None:
        """Free all blocks, table tail first."""
        self.tokens_logical -= tables.num_tokens(self.index, self.block_size)
        for _, block_id in reversed(tables.held(self.index)):
            block = self.pool.blocks[block_id]
            end = self.pool.free(block)
            if end is not None:
                self.moves.cancel_copy(block_id)
            self.emit(Free(seq_id=seq_id, block_id=block_id, to=end, reason=reason))

    # figures and checks

    def memory(self) -> Memory:
        """Return the memory figures, from counters. O(1)."""
        return Memory.counted(
            num_blocks=self.num_blocks,
            block_size=self.block_size,
            blocks_held=self.pool.num_held,
            blocks_cached=self.pool.num_cached_free,
            tokens_held=self.pool.num_filled_held,
            tokens_logical=self.tokens_logical,
            kv_bytes_per_token=self._kv_bytes_per_token,
            state_bytes=self._state_bytes,
            swap_blocks=self.swap_space.num_blocks,
            swap_blocks_held=self.swap_space.num_held,
        )

    def check_integrity(self, tables: Mapping[int, BlockTables]) -> None:
        """Compare all counters with a recount. `tables`: seq_id -> tables. Raises IntegrityError. O(blocks)."""
        self.pool.check_integrity()
        check_tables(tables, self.pool, self.block_size, self.promised, self.tokens_logical, self.index)
        self.swap_space.check_integrity()
        both = tables.keys() & self.swap_space.tables.keys()
        ensure(
            not both,
            f"sequences {sorted(both)} hold blocks, although they are swapped out",
            "swapped_twice",
            seq_id=min(both, default=None),
        )

    def _num_blocks_of(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)
