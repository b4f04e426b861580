"""Read-only methods of the KV cache manager. `kv_cache_manager` has the methods that change the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from engine.cache.block_groups import GroupPlan
from engine.cache.block_table import BlockTables
from engine.cache.cache_figures import BlockDemand, Snapshot
from engine.cache.group_manager import GroupManager
from engine.cache.guards import MisuseError
from engine.cache.incoming import Loading
from engine.cache.prefix_cache import PrefixMatch
from engine.cache.prefix_index import GroupIndex, PrefixIndex
from engine.cache.prefix_memory import Explanation
from engine.trace.operations import Op
from engine.trace.records import Memory


class CacheQueries:
    """Block tables of sequences, and one block pool for each group of layers."""

    def __init__(
        self,
        plans: Sequence[GroupPlan],
        block_size: int,
        enable_prefix_caching: bool,
        emit: Callable[[Op], None],
        swap_space: int = 0,
        kv_bytes_per_token: Sequence[int] = (),
    ) -> None:
        """Create the groups. `swap_space`: CPU blocks per group. `kv_bytes_per_token`: by group, in all layers."""
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
            [GroupIndex(group.pool, group.retention, group.evicted) for group in self.groups],
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
        """Return the reason why the last lookup did not hit more tokens. Changes nothing."""
        return self.prefixes.explain(seq_id, token_ids, cache_salt, num_hit_tokens)

    def max_demand(self, num_slots: int, tokens_a_step: int) -> BlockDemand:
        """Return the maximum demand of a sequence of `num_slots` tokens, in the group with the fewest spare blocks."""
        demands = [group.max_demand(num_slots, tokens_a_step) for group in self.groups]
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

        Returns the demand on the first group with too few blocks, or else on the first group. `reserved`: number of
        tokens that must also fit, although `allocate` takes no blocks for them yet. Changes nothing.
        """
        tables = self._tables.get(seq_id) or BlockTables.empty(len(self.groups))
        demands = [
            group.demand(
                seq_id,
                tables,
                num_tokens,
                group_hits,
                loading.of(group.index) if loading else group.swap_space.incoming(seq_id),
                reserved,
            )
            for group, group_hits in self._groups_with(hits)
        ]
        return next((demand for demand in demands if not demand.fits), demands[0])

    def has_room(self, seq_id: int, num_tokens: int) -> bool:
        """Return whether the sequence has all blocks for [0, num_tokens), and none that it will write is shared.

        If so, `allocate` is a no-op. This is the case in most decode steps.
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
            group.shared_before_write(seq_id, tables, num_tokens) or group.missing_state_blocks(tables, num_tokens)
            for group in self.groups
        )

    def _groups_with(self, hits: Sequence[Sequence[int]]) -> Iterator[tuple[GroupManager, Sequence[int]]]:
        return zip(self.groups, hits or [()] * len(self.groups), strict=True)

    def drop_unseen(self, match: PrefixMatch, loading: Loading) -> PrefixMatch:
        """Return the match without the blocks that no query after `loading` sees."""
        return match._replace(hits=self.prefixes.drop_unseen(match.hits, loading.num_tokens))

    def block_hashes(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None) -> list[bytes]:
        """Return the hashes of the full blocks that a lookup may find: those without the last token."""
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
        """Return the sequence's block tables, by group, with RELEASED entries; empty lists if it holds no blocks.

        The tables are not copies.
        """
        tables = self._tables.get(seq_id)
        return tables.block_ids if tables else [[] for _ in self.groups]

    def num_held(self, seq_id: int) -> int:
        """Return the number of blocks in the sequence's tables."""
        tables = self._tables.get(seq_id)
        return sum(map(len, tables.block_ids)) - sum(tables.num_released) if tables else 0

    def memory(self) -> Memory:
        """Return the memory figures of all pools together, from counters. O(groups)."""
        return Memory.total([group.memory() for group in self.groups])

    def snapshot(self) -> Snapshot:
        """Return a copy of the fields that `trace.state.State` also has."""
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

    def _tables_of(self, seq_id: int) -> BlockTables:
        tables = self._tables.get(seq_id)
        if tables is None:
            raise MisuseError(f"sequence {seq_id} holds no blocks", "no_blocks", seq_id=seq_id)
        return tables
