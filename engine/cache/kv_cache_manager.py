"""Block tables of sequences over one block pool; every change is reported as a trace operation, in order.

One manager serves one group of layers; `hybrid_cache` puts several together.

    positions   [0 ............ num_computed) [num_computed ......... num_tokens)
                 K and V exist                 covered by the table, written by this step
                 (or were released: no query will see them any more)

One step, for each sequence: `lookup` (when admitted), `allocate`, `cache_blocks`, then the forward pass, then `write`.
`cache_blocks` comes before the forward pass: a step writes a layer's K and V of all its tokens before any of them
attends, so a sequence admitted in the same step can share what another one is about to compute. Until `write` such
blocks are *promised*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.cache.block_moves import BlockMoves, PendingMoves
from engine.cache.block_pool import Block, BlockPool, Eviction
from engine.cache.block_table import BlockTable, check_tables
from engine.cache.cache_figures import BlockDemand, Snapshot
from engine.cache.guards import MisuseError, ensure
from engine.cache.prefix_cache import PrefixMatch
from engine.cache.prefix_index import PrefixIndex
from engine.cache.prefix_memory import Explanation, LostBlock
from engine.cache.reach import Retention
from engine.cache.swap_space import SwapSpace
from engine.trace.events import (
    RELEASED,
    Allocate,
    Cache,
    Copy,
    Drop,
    Evict,
    Fork,
    ForkReason,
    Free,
    Op,
    Release,
    Share,
    SwapIn,
    SwapOut,
    Write,
)
from engine.trace.records import Memory


class KVCacheManager:
    """Gives sequences their blocks. Methods raise ValueError on misuse and then have changed nothing."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        enable_prefix_caching: bool,
        emit: Callable[[Op], None],
        swap_space: int = 0,
        kv_bytes_per_token: int = 0,
        retention: Retention | None = None,
    ) -> None:
        """`swap_space`: blocks of the CPU store; `kv_bytes_per_token`: all layers that it serves; `retention`: which
        blocks of a running sequence must be kept, None = all.
        """
        self.groups = [self]
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.pool = BlockPool(num_blocks)
        self.prefixes = PrefixIndex(self.pool, block_size, enable_prefix_caching, retention)
        self.swap_space = SwapSpace(swap_space)
        self.retention = retention
        self.kv_bytes_per_token = kv_bytes_per_token
        self.kv_bytes_per_block = kv_bytes_per_token * block_size
        self._record_index = 0
        self._emit = emit
        self._tables: dict[int, BlockTable] = {}
        self._promised: dict[int, int] = {}  # block id -> sequence that will write it in this step
        self._moves = PendingMoves()
        self._tokens_logical = 0

    def tick(self, record_index: int, step: int) -> None:
        """The clock: operations go into this record from now on, after so many steps."""
        self._record_index, self.pool.step = record_index, step

    # 1) before the forward pass

    def lookup(
        self,
        seq_id: int,
        token_ids: Sequence[int],
        cache_salt: str | None = None,
        skip: bool = False,
        at_most: int | None = None,
    ) -> PrefixMatch:
        """Find the longest cached prefix; see `PrefixIndex.lookup`. Changes no block."""
        return self.prefixes.lookup(seq_id, token_ids, cache_salt, skip, at_most)

    def explain(
        self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None, num_hit_tokens: int
    ) -> Explanation:
        """Why the lookup that was made just before found no more. Changes nothing."""
        return self.prefixes.explain(seq_id, token_ids, cache_salt, num_hit_tokens)

    def demand_at_most(self, num_slots: int, tokens_a_step: int) -> BlockDemand:
        """Blocks that a sequence of `num_slots` tokens holds at most, of those there are; a step computes so many."""
        needed = self._num_blocks_of(num_slots)
        if self.retention is not None:
            needed = min(needed, self.retention.most_blocks(tokens_a_step, self.block_size))
        return BlockDemand(needed, self.num_blocks)

    def demand(self, seq_id: int, num_tokens: int, hits: Sequence[int] = ()) -> BlockDemand:
        """What `allocate` with the same arguments would need. Changes nothing."""
        table = self._tables.get(seq_id, BlockTable())
        num_new = self._num_blocks_of(num_tokens) - len(table.block_ids) - len(hits)
        num_new -= len(self.swap_space.released(seq_id))
        num_revived = sum(self.pool.blocks[i].ref_count == 0 for i in hits if i != RELEASED)
        num_copies = len(self._shared_before_write(table, seq_id, num_tokens))
        return BlockDemand(max(num_new, 0) + num_copies, self.pool.num_free - num_revived)

    def allocate(self, seq_id: int, num_tokens: int, hits: Sequence[int] = ()) -> bool:
        """Make the sequence's table cover positions [0, num_tokens), writable from num_computed on.

        Hits (of a lookup made just before, for a sequence without blocks) are shared; shared blocks that would be
        written are replaced by copies, for the caller to carry out (`take_moves`); the rest is allocated.
        False when there are not enough free blocks; then nothing has changed and nothing was emitted.
        """
        if hits:
            self._check_hits(seq_id, num_tokens, hits)
        elif self._has_room(seq_id, num_tokens):
            return True
        if not self.demand(seq_id, num_tokens, hits).fits:
            return False
        table = self._tables.setdefault(seq_id, BlockTable())
        if hits:
            self._take_hits(seq_id, table, hits)
        for logical in self._shared_before_write(table, seq_id, num_tokens):
            self._copy_on_write(seq_id, table, logical)
        released = self.swap_space.released(seq_id)
        for logical in range(len(table.block_ids), self._num_blocks_of(num_tokens)):
            gone = logical in released
            table.block_ids.append(RELEASED if gone else self._allocate_block(seq_id, logical).block_id)
        table.num_released += len(released)
        return True

    def _take_hits(self, seq_id: int, table: BlockTable, hits: Sequence[int]) -> None:
        """They become the table's beginning; what no query will look at has its place there and no block."""
        for logical, block_id in enumerate(hits):
            table.block_ids.append(block_id)
            if block_id == RELEASED:
                table.num_released += 1
                continue
            revived = self.pool.hit(self.pool.blocks[block_id])
            self._emit(Share(seq_id=seq_id, block_id=block_id, logical=logical, revived=revived))
        table.num_hashed += len(hits)
        table.num_computed += len(hits) * self.block_size
        self._tokens_logical += table.num_logical(self.block_size)

    def _has_room(self, seq_id: int, num_tokens: int) -> bool:
        """Whether the sequence has every block it needs, and to itself: so it is at most steps that decode."""
        table, size = self._tables.get(seq_id), self.block_size
        if table is None or num_tokens > len(table.block_ids) * size:
            return False
        logical = table.num_computed // size
        in_one = table.num_computed < num_tokens <= logical * size + size  # in the block that is being filled
        if in_one and self.pool.blocks[table.block_ids[logical]].ref_count == 1:
            return True
        return not self._shared_before_write(table, seq_id, num_tokens)

    def remember(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None) -> None:
        """The sequence has blocks: from now on later lookups are explained by it. `token_ids`: its own growing list."""
        if self.prefixes.enabled:
            self.prefixes.memory.admitted(seq_id, token_ids, cache_salt)

    def take_moves(self) -> list[BlockMoves]:
        """What the KV store has to do before this step's forward pass, for each group of layers; handed over once."""
        return [self._moves.take()]

    def can_swap_out(self, seq_id: int) -> bool:
        """Whether the CPU store has room for what is computed of the sequence."""
        return len(self._computed(self._table(seq_id))) <= self.swap_space.num_free

    def swap_out(self, seq_id: int) -> int | None:
        """Preempt by swap: what is computed goes to the CPU store, the blocks are freed. Returns the bytes moved.

        None when the CPU store has no room; then nothing has changed. Shared blocks are copied too: in the CPU store
        nothing is shared.
        """
        table = self._table(seq_id)
        computed = self._computed(table)
        cpu_block_ids = self.swap_space.put(seq_id, [logical for logical, _ in computed], table.num_computed)
        if cpu_block_ids is None:
            return None
        for (logical, block_id), cpu_block_id in zip(computed, cpu_block_ids, strict=True):
            ensure(
                block_id not in self._promised,
                f"block {block_id} is swapped out, but it is not written yet",
                "unwritten",
                block_id=block_id,
            )
            self._moves.swap_out(block_id, cpu_block_id)
            self._emit(
                SwapOut(
                    seq_id=seq_id,
                    logical=logical,
                    block_id=block_id,
                    cpu_block_id=cpu_block_id,
                    num_bytes=self.kv_bytes_per_block,
                )
            )
        self.free(seq_id)
        return len(computed) * self.kv_bytes_per_block

    def num_swapped_tokens(self, seq_id: int) -> int:
        """Computed tokens that wait in the CPU store; 0 when the sequence is not swapped out."""
        table = self.swap_space.tables.get(seq_id)
        return table.num_computed if table else 0

    def swap_in(self, seq_id: int, num_tokens: int) -> bool:
        """`allocate` for a swapped-out sequence: its content comes back, num_tokens positions are covered.

        False when there are not enough free blocks; then nothing has changed.
        """
        if not self.allocate(seq_id, num_tokens):
            return False
        table, swapped, size = self._tables[seq_id], self.swap_space.take(seq_id), self.block_size
        for logical, cpu_block_id in zip(swapped.logicals, swapped.cpu_block_ids, strict=True):
            block = self.pool.blocks[table.block_ids[logical]]
            self.pool.fill(block, min(swapped.num_computed - logical * size, size))
            self._moves.swap_in(cpu_block_id, block.block_id)
            self._emit(
                SwapIn(
                    seq_id=seq_id,
                    logical=logical,
                    block_id=block.block_id,
                    cpu_block_id=cpu_block_id,
                    num_bytes=self.kv_bytes_per_block,
                )
            )
        table.num_computed = swapped.num_computed
        self._tokens_logical += table.num_logical(size)
        return True

    def cache_blocks(
        self, seq_id: int, token_ids: Sequence[int], num_tokens: int, cache_salt: str | None = None
    ) -> None:
        """Give each full block within positions [0, num_tokens) its hash, so that others can find it.

        The caller promises to `write` up to `num_tokens` before the sequence is forked, or is freed while others
        go on with what they shared. Blocks must have been made writable by `allocate`.
        """
        if not self.prefixes.enabled:
            return
        table = self._table(seq_id)
        size, num_full = self.block_size, num_tokens // self.block_size
        if num_full <= table.num_hashed:
            return
        chain = self.prefixes.chain(seq_id, cache_salt)
        if num_full > len(table.block_ids) or num_tokens > len(token_ids):
            raise MisuseError(
                f"sequence {seq_id} has neither blocks nor tokens for {num_tokens} positions",
                "no_blocks",
                seq_id=seq_id,
            )
        for logical in range(table.num_hashed, num_full):
            if table.block_ids[logical] == RELEASED:
                continue
            block = self.pool.blocks[table.block_ids[logical]]
            if block.block_hash is not None:
                continue  # a fork shares it and was first
            if block.num_filled < size:
                if block.ref_count > 1:
                    raise MisuseError(
                        f"block {block.block_id} is shared and unwritten: allocate must copy it first",
                        "shared_promise", block_id=block.block_id,
                    )  # fmt: skip
                self._promised[block.block_id] = seq_id
            block_hash = chain.hash_at(logical, token_ids)
            self.pool.cache(block, block_hash)
            self._emit(
                Cache(
                    seq_id=seq_id,
                    block_id=block.block_id,
                    logical=logical,
                    block_hash=block_hash,
                    parent_hash=chain.parent_of(logical),
                    token_ids=list(token_ids[logical * size : (logical + 1) * size]),
                )
            )
        table.num_hashed = num_full

    def block_table(self, seq_id: int) -> list[int]:
        """Physical block ids in logical order, RELEASED among them; empty for a sequence without blocks. A copy."""
        return list(self._tables[seq_id].block_ids) if seq_id in self._tables else []

    def block_tables(self, seq_id: int) -> list[list[int]]:
        """The table of each group of layers, as `block_table` has it but the lists themselves; here there is one."""
        table = self._tables.get(seq_id)
        return [table.block_ids if table else []]

    def num_held(self, seq_id: int) -> int:
        """Blocks in the sequence's table."""
        table = self._tables.get(seq_id)
        return len(table.block_ids) - table.num_released if table else 0

    def slot_mapping(self, seq_id: int, start: int, num_tokens: int) -> list[int]:
        """Slots of positions [start, start + num_tokens): block_id * block_size + position mod block_size."""
        size, ids = self.block_size, self._table(seq_id).block_ids
        if not 0 <= start <= start + num_tokens <= len(ids) * size:
            raise MisuseError(
                f"sequence {seq_id} has no blocks for positions [{start}, {start + num_tokens})",
                "no_blocks",
                seq_id=seq_id,
            )
        if any(ids[p // size] == RELEASED for p in range(start, start + num_tokens)):
            raise MisuseError(
                f"sequence {seq_id} has released blocks of positions [{start}, {start + num_tokens})",
                "released",
                seq_id=seq_id,
            )
        return [ids[p // size] * size + p % size for p in range(start, start + num_tokens)]

    # 2) after the forward pass

    def write(self, seq_id: int, start: int, num_tokens: int) -> None:
        """K and V of positions [start, start + num_tokens) exist now; start is the number computed so far."""
        table, size, end = self._table(seq_id), self.block_size, start + num_tokens
        if start != table.num_computed or num_tokens < 1 or end > len(table.block_ids) * size:
            raise MisuseError(
                f"sequence {seq_id} cannot write positions [{start}, {end}): {table.num_computed} are computed, "
                f"{len(table.block_ids)} blocks of {size} are held",
                "write_range", seq_id=seq_id, said=table.num_computed, counted=start,
            )  # fmt: skip
        pool, promised, block_ids = self.pool, self._promised, table.block_ids
        first, last = start // size, (end - 1) // size
        blocks = [pool.blocks[block_ids[first]]]
        if last > first:
            blocks += [pool.blocks[block_id] for block_id in block_ids[first + 1 : last + 1]]
        for block in blocks:
            if block.ref_count > 1 and promised.get(block.block_id) != seq_id:
                raise MisuseError(
                    f"block {block.block_id} is shared: allocate must copy it before the write",
                    "shared_write", block_id=block.block_id,
                )  # fmt: skip
        for logical, block in enumerate(blocks, first):
            pool.fill(block, end - logical * size if logical == last else size)
            if block.num_filled == size:
                promised.pop(block.block_id, None)
        table.num_computed = end
        self._tokens_logical += num_tokens
        self._emit(Write(seq_id=seq_id, start=start, num_tokens=num_tokens))

    def release(self, seq_id: int) -> None:
        """Let go of the blocks that no later query of the sequence will see. Its table keeps its logical order.

        The last of them first, as `free` does: a prefix is worth more than what follows it, so it is evicted later.
        A hashed block can still be found by others until it is reallocated, and by the sequence itself after a
        preemption. Nothing happens where some layer sees all keys (`Retention`).
        """
        if self.retention is None:
            return
        table = self._table(seq_id)
        begin = self.retention.first(self.block_size) + table.num_released
        for logical in reversed(range(begin, self.retention.end(table.num_computed, self.block_size))):
            block = self.pool.blocks[table.block_ids[logical]]
            ensure(
                self._promised.get(block.block_id) != seq_id,
                f"block {block.block_id} is released, but not written",
                "unwritten",
                block_id=block.block_id,
            )
            table.block_ids[logical] = RELEASED
            table.num_released += 1
            self._tokens_logical -= self.block_size
            self._emit(
                Release(
                    seq_id=seq_id,
                    block_id=block.block_id,
                    logical=logical,
                    reason=self.retention.reason,
                    to=self.pool.release(block),
                )
            )

    def fork(
        self,
        parent_seq_id: int,
        seq_id: int,
        request_id: str,
        reason: ForkReason = "sample",
        seed: int | None = None,
    ) -> None:
        """The child shares every block of the parent, the partial tail too; whoever writes to it first gets a copy."""
        parent = self._table(parent_seq_id)
        if seq_id in self._tables:
            raise MisuseError(f"sequence {seq_id} holds blocks already", "has_blocks", seq_id=seq_id)
        if any(owner == parent_seq_id for owner in self._promised.values()):
            raise MisuseError(
                f"sequence {parent_seq_id} cannot fork before it wrote what it promised",
                "early_fork",
                seq_id=parent_seq_id,
            )
        if self._moves.fills_blocks:
            raise MisuseError(
                "copies are outstanding (take_moves): a fork now could share a block not yet copied",
                "early_fork",
                seq_id=parent_seq_id,
            )
        for _, block_id in parent.held():
            self.pool.share(self.pool.blocks[block_id])
        self._tables[seq_id] = replace(parent, block_ids=list(parent.block_ids))
        self.prefixes.fork(parent_seq_id, seq_id)
        self._tokens_logical += parent.num_logical(self.block_size)
        self._emit(Fork(parent_seq_id=parent_seq_id, seq_id=seq_id, request_id=request_id, reason=reason, seed=seed))

    def free(self, seq_id: int) -> None:
        """Let go of all blocks, table tail first (a prefix is worth more than what follows it). No blocks: nothing.

        Released entries are passed over: they hold nothing any more.

        What the sequence promised and never wrote loses its hash: the step was given up.
        """
        table = self._tables.pop(seq_id, None)
        if table is None:
            return
        self._tokens_logical -= table.num_logical(self.block_size)
        self.prefixes.memory.released(seq_id, table.num_computed)
        for _, block_id in reversed(table.held()):
            block = self.pool.blocks[block_id]
            if self._promised.get(block_id) == seq_id:
                del self._promised[block_id]
                self._evicted(block_id, self.pool.uncache(block), seq_id, lost=False)
            end = self.pool.release(block)
            if end is not None:
                self._moves.given_away(block_id)
            self._emit(Free(seq_id=seq_id, block_id=block_id, to=end))

    def forget(self, seq_id: int) -> None:
        """Drop the hashes and the swapped-out content of a sequence that will not come back.

        It must hold no blocks.
        """
        if seq_id in self._tables:
            raise MisuseError(f"sequence {seq_id} still holds blocks", "has_blocks", seq_id=seq_id)
        self.prefixes.chains.pop(seq_id, None)
        if seq_id in self.swap_space.tables:
            for cpu_block_id in self.swap_space.take(seq_id).cpu_block_ids:
                self._emit(Drop(seq_id=seq_id, cpu_block_id=cpu_block_id))

    # 3) looking at it

    def memory(self) -> Memory:
        """The pool in numbers, from counters: O(1)."""
        return Memory.counted(
            num_blocks=self.num_blocks,
            block_size=self.block_size,
            blocks_held=self.pool.num_held,
            blocks_cached=self.pool.num_cached_free,
            tokens_held=self.pool.num_filled_held,
            tokens_logical=self._tokens_logical,
            kv_bytes_per_token=self.kv_bytes_per_token,
            swap_blocks=self.swap_space.num_blocks,
            swap_blocks_held=self.swap_space.num_held,
        )

    def snapshot(self) -> Snapshot:
        """A copy of everything that the trace's state also knows."""
        blocks = self.pool.blocks
        return Snapshot(
            ref_counts=[b.ref_count for b in blocks],
            block_hashes=[b.block_hash for b in blocks],
            num_filled=[b.num_filled for b in blocks],
            free_queues=[list(self.pool.free_queue)],
            block_tables={i: [list(t.block_ids)] for i, t in self._tables.items()},
            cpu_block_tables={i: list(t.cpu_block_ids) for i, t in self.swap_space.tables.items()},
        )

    def check_integrity(self) -> None:
        """Recount everything. Raises IntegrityError with the first contradiction. O(blocks), for tests."""
        self.pool.check_integrity()
        check_tables(self._tables, self.pool, self.block_size, self._promised, self._tokens_logical)
        self.swap_space.check_integrity()
        both = self._tables.keys() & self.swap_space.tables.keys()
        ensure(
            not both,
            f"sequences {sorted(both)} hold blocks and are swapped out",
            "swapped_twice",
            seq_id=min(both, default=None),
        )

    def _computed(self, table: BlockTable) -> list[tuple[int, int]]:
        """(logical, block id) of the blocks with something in them."""
        end = self._num_blocks_of(table.num_computed)
        return [held for held in table.held() if held[0] < end]

    def _num_blocks_of(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def _table(self, seq_id: int) -> BlockTable:
        table = self._tables.get(seq_id)
        if table is None:
            raise MisuseError(f"sequence {seq_id} holds no blocks", "no_blocks", seq_id=seq_id)
        return table

    def _check_hits(self, seq_id: int, num_tokens: int, hits: Sequence[int]) -> None:
        if seq_id in self._tables:
            raise MisuseError(
                f"sequence {seq_id} holds blocks already: hits can only be its first ones", "has_blocks", seq_id=seq_id
            )
        if len(hits) * self.block_size > num_tokens:
            raise MisuseError(
                f"{len(hits)} hit blocks reach beyond {num_tokens} tokens",
                "long_hit",
                seq_id=seq_id,
                said=len(hits),
                counted=num_tokens,
            )
        for logical, block_id in enumerate(hits):
            if block_id == RELEASED:
                continue
            chain = self.prefixes.chains.get(seq_id)
            expected = chain.parent_of(logical + 1) if chain else None
            if expected is None or self.pool.blocks[block_id].block_hash != expected:
                raise MisuseError(
                    f"block {block_id} no longer holds what the lookup found: allocate right after it",
                    "stale_hit", block_id=block_id,
                )  # fmt: skip

    def _shared_before_write(self, table: BlockTable, seq_id: int, num_tokens: int) -> list[int]:
        """Logical blocks of positions [num_computed, num_tokens) that others hold too; own promises stay in place."""
        size, blocks, block_ids = self.block_size, self.pool.blocks, table.block_ids
        shared = []
        for logical in range(table.num_computed // size, min(-(-num_tokens // size), len(block_ids))):
            block = blocks[block_ids[logical]]
            if block.ref_count > 1 and self._promised.get(block.block_id) != seq_id:
                shared.append(logical)
        return shared

    def _allocate_block(self, seq_id: int, logical: int) -> Block:
        block, evicted = self.pool.allocate()
        if evicted is not None:
            self._evicted(block.block_id, evicted, seq_id)
        self._emit(Allocate(seq_id=seq_id, block_id=block.block_id, logical=logical))
        return block

    def _evicted(self, block_id: int, eviction: Eviction, seq_id: int, lost: bool = True) -> None:
        """Report that a hash was taken; `lost`: there was content behind it that a later prompt may miss."""
        if lost:
            self.prefixes.memory.evicted(eviction.block_hash, LostBlock(block_id, self._record_index, seq_id))
        self._emit(
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

    def _copy_on_write(self, seq_id: int, table: BlockTable, logical: int) -> None:
        src = self.pool.blocks[table.block_ids[logical]]
        dst = self._allocate_block(seq_id, logical)
        self.pool.release(src)  # stays held: it had more than one owner
        self.pool.fill(dst, src.num_filled)
        table.block_ids[logical] = dst.block_id
        self._moves.copy(src.block_id, dst.block_id)
        self._emit(Copy(seq_id=seq_id, logical=logical, src=src.block_id, dst=dst.block_id))
