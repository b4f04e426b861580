"""Manager of the block tables of sequences, with one block pool for each group of layers.

The scheduler and the engine use this manager, which coordinates the groups. A `GroupManager` for each group changes the
blocks and emits every change as a trace operation. If an allocation does not fit into one group, no group is changed.

    positions   [0 ............ num_computed) [num_computed ......... num_tokens)
                 K and V exist                 covered by the tables, written by this step
                 (or were released, since no later query sees them)

One step, for each sequence: `lookup` (when admitted), `allocate`, `cache_blocks`, then the forward pass, then `write`.
`cache_blocks` precedes the forward pass, because a step writes a layer's K and V of all tokens before any of them
attends. So a sequence admitted in the same step can share blocks that another one is about to compute. Such blocks are
*promised* until `write`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.cache import swapping
from engine.cache.block_moves import BlockMoves
from engine.cache.block_table import BlockTables
from engine.cache.cache_queries import CacheQueries
from engine.cache.guards import MisuseError
from engine.cache.incoming import Loading
from engine.trace.operations import RELEASED, AllocateReason, Fork, ForkReason, FreeReason, TakeBack, Write


class KVCacheManager(CacheQueries):
    """Manager of the sequences' blocks. On misuse, methods raise MisuseError and change nothing.

    Block policy: allocation takes the head of the free queue. Freeing walks a table from its tail: blocks without a
    hash go to the front of the queue, hashed ones to the back. A hit revives a free block in place.
    """

    def tick(self, record_index: int, step: int) -> None:
        """Set the index of the record that will contain the next operations, and the number of finished steps."""
        for group in self.groups:
            group.record_index, group.pool.step = record_index, step

    # 1) before the forward pass

    def remember(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None) -> None:
        """Record a sequence, to explain later misses. `token_ids`: the sequence's own list, which grows."""
        if self.prefixes.enabled:
            self.prefixes.remember(seq_id, token_ids, cache_salt)

    def allocate(
        self,
        seq_id: int,
        num_tokens: int,
        reason: AllocateReason,
        hits: Sequence[Sequence[int]] = (),
        loading: Loading | None = None,
    ) -> bool:
        """Extend the sequence's tables to positions [0, num_tokens), writable from num_computed on.

        Hit blocks are shared. Shared blocks that the step will write are replaced by copies, which the caller executes
        (`take_moves`). The remaining blocks are allocated.

        Args:
            reason: reason recorded for each new block, except for copies.
            hits: hits of the lookup made just before, for a sequence without blocks.
            loading: blocks after the hits, which count as computed. The caller fills them before attention reads them.

        Returns:
            False if some group has too few free blocks. Nothing is changed in this case.
        """
        if hits or loading:
            self._check_holds_nothing(seq_id)
        if hits:
            self.prefixes.check_hits(seq_id, num_tokens, hits)
        elif self.has_room(seq_id, num_tokens):
            return True
        if not self.demand(seq_id, num_tokens, hits, loading).fits:
            return False
        tables = self._tables.setdefault(seq_id, BlockTables.empty(len(self.groups)))
        if hits:
            tables.num_hashed += len(hits[0])
            tables.num_computed += len(hits[0]) * self.block_size
        for group, group_hits in self._groups_with(hits):
            group.take_hits(seq_id, tables, group_hits)
            if loading is None:
                group.cover(seq_id, tables, num_tokens, reason)
            else:
                group.cover(seq_id, tables, num_tokens, reason, loading.of(group.index))
        if loading is not None and not loading.is_later:
            for group in self.groups:
                group.load(seq_id, tables, loading.sources[group.index])
            self._filled(tables, loading)
        return True

    def receive(self, seq_id: int, loading: Loading) -> None:
        """Mark the blocks that were allocated for a transfer as filled, after the caller has written them."""
        tables = self._tables_of(seq_id)
        for group in self.groups:
            group.receive(seq_id, tables, loading.sources[group.index], loading.num_tokens)
        self._filled(tables, loading)

    def _filled(self, tables: BlockTables, loading: Loading) -> None:
        """Count the tokens of the loaded blocks as computed."""
        for group in self.groups:
            group.tokens_logical += loading.num_tokens - tables.num_computed
        tables.num_computed = loading.num_tokens

    def cache_blocks(
        self, seq_id: int, token_ids: Sequence[int], num_tokens: int, cache_salt: str | None = None
    ) -> None:
        """Set the hash of each full block within positions [0, num_tokens), so that lookups find it.

        The caller must `write` up to `num_tokens` before the sequence is forked or freed, or call `take_back`. The
        blocks must be writable: see `allocate`.
        """
        if not self.prefixes.enabled:
            return
        tables, num_full = self._tables_of(seq_id), num_tokens // self.block_size
        if num_full <= tables.num_hashed:
            return
        chain = self.prefixes.chain(seq_id, cache_salt)
        if num_full > len(tables.block_ids[0]) or num_tokens > len(token_ids):
            raise MisuseError(
                f"sequence {seq_id} has neither blocks nor tokens for {num_tokens} positions",
                "no_blocks", seq_id=seq_id,
            )  # fmt: skip
        unhashed = [group.unhashed(tables, num_full) for group in self.groups]
        for group, blocks in zip(self.groups, unhashed, strict=True):
            group.cache(seq_id, blocks, token_ids, chain)
        tables.num_hashed = num_full

    def take_back(self, unmoved: Sequence[BlockMoves], unloaded: Iterable[int]) -> set[int]:
        """Drop the hashes of the blocks that a failed step did not fill.

        These are the promised blocks, the destinations of the moves `unmoved`, and the blocks `unloaded`. Returns the
        sequences that hold one of them, in the pool or in the CPU store. They must not continue with their blocks.
        """
        lost: dict[int, int | None] = dict.fromkeys(unloaded)
        lost.update((block_id, None) for moves in unmoved for _, block_id in (*moves.swap_in, *moves.copy))
        lost.update(self.promised)
        unsaved = {cpu_block_id for moves in unmoved for _, cpu_block_id in moves.swap_out}
        self.promised.clear()
        for group in self.groups:
            for block_id, seq_id in lost.items():
                group.uncache(block_id, seq_id)
        affected = {
            seq_id
            for seq_id, tables in self._tables.items()
            if any(not lost.keys().isdisjoint(block_ids) for block_ids in tables.block_ids)
        }
        for group in self.groups:
            swapped = group.swap_space.tables.items()
            affected |= {seq_id for seq_id, table in swapped if not unsaved.isdisjoint(table.cpu_block_ids)}
        return affected

    def take_moves(self) -> list[BlockMoves]:
        """Return and clear the pending moves of each group, to be executed before the forward pass."""
        return [group.moves.take() for group in self.groups]

    def swap_out(self, seq_id: int) -> int | None:
        """Copy computed blocks to the CPU store and free all blocks. Returns the bytes moved.

        Returns None, and changes nothing, if the CPU store of some group is too full. Shared blocks are copied too,
        because the CPU store shares nothing.
        """
        tables = self._tables_of(seq_id)
        if not all(swapping.can_swap_out(group, tables) for group in self.groups):
            return None
        num_bytes = 0
        for group in self.groups:
            num_bytes += swapping.swap_out(group, seq_id, tables)
            group.free(seq_id, tables, "swap")
        self._drop_tables(seq_id)
        return num_bytes

    def swap_in(self, seq_id: int, num_tokens: int) -> bool:
        """Allocate blocks for `num_tokens` positions of a swapped-out sequence, and move its content back.

        Returns False, and changes nothing, if some group has too few free blocks.
        """
        if not self.demand(seq_id, num_tokens).fits:
            return False
        tables = self._tables[seq_id] = BlockTables.empty(len(self.groups))
        tables.num_computed = self.num_swapped_tokens(seq_id)
        for group in self.groups:
            group.cover(seq_id, tables, num_tokens, "resume", group.swap_space.incoming(seq_id))
            swapping.swap_in(group, seq_id, tables)
        return True

    # 2) after the forward pass

    def write(self, seq_id: int, start: int, num_tokens: int) -> None:
        """Mark positions [start, start + num_tokens) as written. `start` must equal the number of computed tokens."""
        tables, size, end = self._tables_of(seq_id), self.block_size, start + num_tokens
        if start != tables.num_computed or num_tokens < 1 or end > len(tables.block_ids[0]) * size:
            raise MisuseError(
                f"sequence {seq_id} cannot write positions [{start}, {end}): {tables.num_computed} are computed, "
                f"{len(tables.block_ids[0])} blocks of {size} are held",
                "write_range", seq_id=seq_id, said=tables.num_computed, counted=start,
            )  # fmt: skip
        blocks, promised = self._blocks, self.promised
        first, last = start // size, (end - 1) // size
        for block_ids in tables.block_ids:
            for block_id in block_ids[first : last + 1] if last > first else (block_ids[first],):
                if block_id != RELEASED and blocks[block_id].ref_count > 1 and promised.get(block_id) != seq_id:
                    raise MisuseError(
                        f"block {block_id} is shared: allocate must copy it before the write",
                        "shared_write", block_id=block_id,
                    )  # fmt: skip
        for group in self.groups:
            group.write(tables, first, end)
        tables.num_computed = end
        self._emit(Write(seq_id=seq_id, start=start, num_tokens=num_tokens))

    def truncate(self, seq_id: int, num_tokens: int) -> None:
        """Discard the written positions from `num_tokens` on, whose tokens are rejected drafts.

        Blocks that become empty are freed, the last one first. None of them has a hash, since drafts are not hashed.
        """
        tables = self._tables_of(seq_id)
        num_rejected = tables.num_computed - num_tokens
        if num_rejected <= 0:
            return
        if num_tokens < tables.num_hashed * self.block_size:
            raise MisuseError(
                f"sequence {seq_id} cannot take back position {num_tokens}: it is in a cached block",
                "write_range", seq_id=seq_id, said=tables.num_computed, counted=num_tokens,
            )  # fmt: skip
        for group in self.groups:
            group.truncate(seq_id, tables, num_tokens)
        tables.num_computed = num_tokens
        self._emit(TakeBack(seq_id=seq_id, start=num_tokens, num_tokens=num_rejected))

    def release(self, seq_ids: Iterable[int]) -> None:
        """Release the blocks that no later query of these sequences sees. Their table entries become RELEASED.

        Call it after all sequences of a step have written, because a promised block may be shared. The last block of
        each sequence is released first, as in `free`, so that prefixes are evicted last. Lookups find a hashed block
        until it is reallocated. Groups with a layer that sees all keys release nothing.
        """
        if not self._releasing:
            return
        for seq_id in seq_ids:
            tables = self._tables_of(seq_id)
            for group in self._releasing:
                group.release(seq_id, tables)

    def release_forgotten(self, seq_id: int, logicals: Sequence[Sequence[int]]) -> None:
        """Release full blocks whose tokens every head of a group's layers has forgotten. `logicals`: by group."""
        tables = self._tables_of(seq_id)
        for group, forgotten in zip(self.groups, logicals, strict=True):
            group.release_forgotten(seq_id, tables, forgotten)

    def fork(
        self, parent_seq_id: int, seq_id: int, request_id: str, reason: ForkReason = "sample", seed: int | None = None
    ) -> None:
        """Share all blocks of the parent with a child. Whichever writes the partial last block first gets a copy."""
        parent = self._tables_of(parent_seq_id)
        self._check_holds_nothing(seq_id)
        if any(owner == parent_seq_id for owner in self.promised.values()):
            raise MisuseError(
                f"sequence {parent_seq_id} cannot fork before it has written the blocks that it promised",
                "early_fork", seq_id=parent_seq_id,
            )  # fmt: skip
        if any(group.moves.fills_blocks for group in self.groups):
            raise MisuseError(
                "copies are pending (take_moves): the child could share a block that is not copied yet",
                "early_fork", seq_id=parent_seq_id,
            )  # fmt: skip
        for group in self.groups:
            group.share_all(parent)
        self._tables[seq_id] = parent.copy()
        self.prefixes.fork(parent_seq_id, seq_id)
        self._emit(Fork(parent_seq_id=parent_seq_id, seq_id=seq_id, request_id=request_id, reason=reason, seed=seed))

    def free(self, seq_id: int, reason: FreeReason) -> None:
        """Free all blocks, table tail first, so that prefixes are evicted last. No-op if the sequence has no blocks."""
        tables = self._tables.get(seq_id)
        if tables is None:
            return
        for group in self.groups:
            group.free(seq_id, tables, reason)
        self._drop_tables(seq_id)

    def _drop_tables(self, seq_id: int) -> None:
        """Delete the tables of a sequence whose blocks have been freed."""
        self.prefixes.memory.released(seq_id, self._tables.pop(seq_id).num_computed)

    def forget(self, seq_id: int) -> None:
        """Delete the hashes and the swapped-out content of a finished sequence, which must hold no blocks."""
        self._check_holds_nothing(seq_id)
        self.prefixes.chains.pop(seq_id, None)
        for group in self.groups:
            swapping.drop(group, seq_id)

    def _check_holds_nothing(self, seq_id: int) -> None:
        if seq_id in self._tables:
            raise MisuseError(f"sequence {seq_id} holds blocks already", "has_blocks", seq_id=seq_id)
