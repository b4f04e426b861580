"""Read-only part of the KV cache manager. `kv_cache_manager` has the methods that change the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from engine.cache.block_groups import GroupPlan
from engine.cache.block_table import BlockTables
from engine.cache.cache_figures import BlockDemand, Snapshot
from engine.cache.group_manager import GroupManager
from engine.cache.guards import MisuseError
from engine.cache.incoming import Loading
from engine.cache.prefix_cache import PrefixMatch
from engine.cache.prefix_index import PrefixIndex, Shelf
from engine.cache.prefix_memory import Explanation
from engine.trace.operations import Op
from engine.trace.records import Memory


class CacheBooks:
    """Block tables of sequences over one pool of blocks for each group of layers."""

    def __init__(
        self,
        plans: Sequence[GroupPlan],
        block_size: int,
        enable_prefix_caching: bool,
        emit: Callable[[Op], None],
        swap_space: int = 0,
        kv_bytes_per_token: Sequence[int] = (),
    ) -> None:
        """Create the groups. `swap_space`: blocks of the CPU store per group. `kv_bytes_per_token`: of all layers of
        each group; 0 if not given.
        """
        self.block_size = block_size
        self._emit = emit
        self.promised: dict[int, int] = {}  # block id -> sequence that will write it in this step
        each = kv_bytes_per_token or [0] * len(plans)
        self.groups = [
            GroupManager(index, plan, block_size, swap_space, per_token, self.promised, emit)
            for index, (plan, per_token) in enumerate(zip(plans, each, strict=True))
        ]
        self._releasing = [group for group in self.groups if group.retention is not None]
        self.prefixes = PrefixIndex(
            [Shelf(group.pool, group.retention, group.evicted) for group in self.groups],
            block_size,
            enable_prefix_caching,
        )
        self._tables: dict[int, BlockTables] = {}
        self._blocks = {i: block for group in self.groups for i, block in group.pool.blocks.items()}

    def lookup(
        self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None = None, skip: bool = False
    ) -> PrefixMatch:
        """Return the longest cached prefix; see `PrefixIndex.lookup`. Changes no block."""
        return self.prefixes.lookup(seq_id, token_ids, cache_salt, skip)

    def explain(
        self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None, num_hit_tokens: int
    ) -> Explanation:
        """Return the reason for the end of the hits of the last lookup. Changes nothing."""
        return self.prefixes.explain(seq_id, token_ids, cache_salt, num_hit_tokens)

    def demand_at_most(self, num_slots: int, tokens_a_step: int) -> BlockDemand:
        """Return the maximum demand of a sequence of `num_slots` tokens, in the group with the fewest blocks left."""
        demands = [group.demand_at_most(num_slots, tokens_a_step) for group in self.groups]
        return min(demands, key=lambda demand: demand.available - demand.needed)

    def demand(
        self,
        seq_id: int,
        num_tokens: int,
        hits: Sequence[Sequence[int]] = (),
        loading: Loading | None = None,
        reserved: int = 0,
    ) -> BlockDemand:
        """Return the demand of `allocate` with the same arguments, or of `swap_in` for a swapped-out sequence.

        The result is the demand on the first group that lacks blocks, otherwise on the first group. `reserved`: tokens
        that must fit too, although nothing is allocated for them yet. Changes nothing.
        """
        tables = self._tables.get(seq_id) or BlockTables.empty(len(self.groups))
        demands = [
            group.demand(
                seq_id,
                tables,
                num_tokens,
                own,
                loading.of(group.index) if loading else group.swap_space.incoming(seq_id),
                reserved,
            )
            for group, own in self._with(hits)
        ]
        return next((demand for demand in demands if not demand.fits), demands[0])

    def has_room(self, seq_id: int, num_tokens: int) -> bool:
        """Return whether the sequence has all blocks for positions [0, num_tokens), and shares none that it writes.

        Then `allocate` is a no-op. This is true of most decode steps.
        """
        tables = self._tables.get(seq_id)
        if tables is None:
            return False
        num_computed = tables.num_computed
        if num_tokens == num_computed + 1:  # a decode step writes one block only
            logical = num_computed // self.block_size
            for block_ids in tables.block_ids:
                block = self._blocks.get(block_ids[logical]) if logical < len(block_ids) else None
                if block is None or block.ref_count != 1:
                    break
            else:
                return True
        if num_tokens > len(tables.block_ids[0]) * self.block_size:
            return False
        return not any(
            group.shared_before_write(seq_id, tables, num_tokens) or group.lacking(tables, num_tokens)
            for group in self.groups
        )

    def _with(self, hits: Sequence[Sequence[int]]) -> Iterator[tuple[GroupManager, Sequence[int]]]:
        return zip(self.groups, hits or [()] * len(self.groups), strict=True)

    def followed(self, match: PrefixMatch, loading: Loading) -> PrefixMatch:
        """Return the match without the blocks that no query after `loading` sees."""
        return match._replace(hits=self.prefixes.followed(match.hits, loading.num_tokens))

    def block_hashes(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None) -> list[bytes]:
        """Return the hashes of the leading full blocks, without the last token, which a lookup may find."""
        chain, num_blocks = self.prefixes.chain(seq_id, cache_salt), (len(token_ids) - 1) // self.block_size
        return [chain.hash_at(logical, token_ids) for logical in range(num_blocks)]

    def group_of(self, block_id: int) -> int:
        """Return the group of a block."""
        return next(g.index for g in reversed(self.groups) if block_id >= g.pool.first_block)

    def needed_blocks(self, group: int, num_tokens: int) -> list[int]:
        """Return the logical blocks of the first `num_tokens` tokens that a query after them sees in a group."""
        return self.prefixes.needed(group, num_tokens)

    def num_swapped_tokens(self, seq_id: int) -> int:
        """Return the number of computed tokens in the CPU store; 0 if the sequence is not swapped out."""
        swapped = self.groups[0].swap_space.tables.get(seq_id)
        return swapped.num_computed if swapped else 0

    def block_tables(self, seq_id: int) -> list[list[int]]:
        """Return the block table of each group, RELEASED entries included; empty lists without blocks.

        The tables are not copies.
        """
        tables = self._tables.get(seq_id)
        return tables.block_ids if tables else [[] for _ in self.groups]

    def num_held(self, seq_id: int) -> int:
        """Return the number of blocks in the sequence's tables."""
        tables = self._tables.get(seq_id)
        return sum(map(len, tables.block_ids)) - sum(tables.num_released) if tables else 0

    def memory(self) -> Memory:
        """Return the total figures of all pools, from counters. O(groups)."""
        return Memory.total([group.memory() for group in self.groups])

    def snapshot(self) -> Snapshot:
        """Return a copy of the fields that the trace's state has too."""
        blocks = self._blocks.values()
        return Snapshot(
            ref_counts=[b.ref_count for b in blocks],
            block_hashes=[b.block_hash for b in blocks],
            num_filled=[b.num_filled for b in blocks],
            free_queues=[list(group.pool.free_queue) for group in self.groups],
            block_tables={i: tables.copy().block_ids for i, tables in self._tables.items()},
            cpu_block_tables={
                i: [cpu_block for group in self.groups for cpu_block in group.swap_space.tables[i].cpu_block_ids]
                for i in self.groups[0].swap_space.tables
            },
        )

    def check_integrity(self) -> None:
        """Compare all counters with a recount. Raises IntegrityError. O(blocks), for tests."""
        for group in self.groups:
            group.check_integrity(self._tables)

    def _held(self, seq_id: int) -> BlockTables:
        tables = self._tables.get(seq_id)
        if tables is None:
            raise MisuseError(f"sequence {seq_id} holds no blocks", "no_blocks", seq_id=seq_id)
        return tables
