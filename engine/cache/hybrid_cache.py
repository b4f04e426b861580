"""Several groups of layers, each with a KV cache manager of its own; a sequence has a block table in every one.

The managers count their blocks from 0. In the trace block ids are unique: group g's follow those of the groups before
it, and so do the blocks of its CPU store. Here is the one place that translates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from engine.cache.block_groups import GroupPlan
from engine.cache.block_moves import BlockMoves
from engine.cache.cache_figures import BlockDemand, Snapshot
from engine.cache.kv_cache_manager import KVCacheManager
from engine.cache.prefix_cache import PrefixMatch
from engine.cache.prefix_memory import Explanation
from engine.trace.events import (
    RELEASED,
    Copy,
    Drop,
    Fork,
    ForkReason,
    LookupVerdict,
    Op,
    SwapIn,
    SwapOut,
    Write,
)
from engine.trace.records import Memory

Emit = Callable[[Op], None]


class HybridMatch(NamedTuple):
    """What all groups have of a sequence. Valid until the next allocation or release."""

    hits: list[list[int]]  # of each group, by its own block ids
    block_ids: list[int]  # the blocks that are taken, by the trace's ids, group after group
    num_tokens: int
    verdict: LookupVerdict


class HybridCache:
    """The methods of `KVCacheManager`, for all groups at once: what one has no room for happens in none."""

    def __init__(self, emit: Emit, make_group: Sequence[Callable[[Emit], KVCacheManager]]) -> None:
        """`make_group`: the manager of each group, given where its operations go."""
        self.groups: list[KVCacheManager] = []
        self._first_blocks: list[int] = []
        first = first_cpu = 0
        for make in make_group:
            self.groups.append(make(_translating(emit, first, first_cpu) if self.groups else emit))
            self._first_blocks.append(first)
            first += self.groups[-1].num_blocks
            first_cpu += self.groups[-1].swap_space.num_blocks
        self.num_blocks = first
        self.block_size = self.groups[0].block_size

    def tick(self, record_index: int, step: int) -> None:
        """The clock: operations go into this record from now on, after so many steps."""
        for group in self.groups:
            group.tick(record_index, step)

    # 1) before the forward pass

    def lookup(
        self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None = None, skip: bool = False
    ) -> HybridMatch:
        """The longest beginning that every group has. Changes no block."""
        at_most: int | None = None
        while True:  # what one group lacks, the others must do without; each round is shorter than the one before
            matches = []
            for group in self.groups:
                matches.append(group.lookup(seq_id, token_ids, cache_salt, skip, at_most))
                at_most = len(matches[-1].hits)
            if all(len(match.hits) == at_most for match in matches):
                return self._joined(matches)

    def _joined(self, matches: Sequence[PrefixMatch]) -> HybridMatch:
        block_ids = [
            first + block_id
            for first, match in zip(self._first_blocks, matches, strict=True)
            for block_id in match.block_ids
        ]
        return HybridMatch([match.hits for match in matches], block_ids, matches[0].num_tokens, matches[0].verdict)

    def explain(
        self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None, num_hit_tokens: int
    ) -> Explanation:
        """Why the lookup that was made just before found no more: the group that lost content says so, if one did."""
        found = [group.explain(seq_id, token_ids, cache_salt, num_hit_tokens) for group in self.groups]
        for first, why in zip(self._first_blocks, found, strict=True):
            if why.lost is not None:
                return why._replace(lost=why.lost._replace(block_id=first + why.lost.block_id))
        return found[0]

    def remember(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None) -> None:
        """From now on later lookups are explained by this sequence."""
        for group in self.groups:
            group.remember(seq_id, token_ids, cache_salt)

    def demand_at_most(self, num_slots: int, tokens_a_step: int) -> BlockDemand:
        """Of the group with the least room to spare."""
        demands = [group.demand_at_most(num_slots, tokens_a_step) for group in self.groups]
        return min(demands, key=lambda demand: demand.available - demand.needed)

    def demand(self, seq_id: int, num_tokens: int, hits: Sequence[Sequence[int]] = ()) -> BlockDemand:
        """Of the first group that has no room, or else of the first one."""
        demands = [group.demand(seq_id, num_tokens, own) for group, own in self._with(hits)]
        return next((demand for demand in demands if not demand.fits), demands[0])

    def allocate(self, seq_id: int, num_tokens: int, hits: Sequence[Sequence[int]] = ()) -> bool:
        """In all groups, or, where one has no room, in none: then nothing has changed."""
        if not self.demand(seq_id, num_tokens, hits).fits:
            return False
        for group, own in self._with(hits):
            allocated = group.allocate(seq_id, num_tokens, own)
            assert allocated, "demand said that it fits"
        return True

    def _with(self, hits: Sequence[Sequence[int]]) -> list[tuple[KVCacheManager, Sequence[int]]]:
        return list(zip(self.groups, hits or [()] * len(self.groups), strict=True))

    def cache_blocks(
        self, seq_id: int, token_ids: Sequence[int], num_tokens: int, cache_salt: str | None = None
    ) -> None:
        """A full block has the same hash in every group: it names the tokens, not the layers."""
        for group in self.groups:
            group.cache_blocks(seq_id, token_ids, num_tokens, cache_salt)

    def take_moves(self) -> list[BlockMoves]:
        """What the KV store has to do before this step's forward pass, by each group's own block ids."""
        return [moves for group in self.groups for moves in group.take_moves()]

    def swap_out(self, seq_id: int) -> int | None:
        """All groups' blocks go to their CPU stores, or, where one has no room, none (None)."""
        if not all(group.can_swap_out(seq_id) for group in self.groups):
            return None
        moved = [group.swap_out(seq_id) for group in self.groups]
        return sum(num_bytes for num_bytes in moved if num_bytes is not None)

    def num_swapped_tokens(self, seq_id: int) -> int:
        """Computed tokens that wait in the CPU stores; 0 when the sequence is not swapped out."""
        return self.groups[0].num_swapped_tokens(seq_id)

    def swap_in(self, seq_id: int, num_tokens: int) -> bool:
        """In all groups or in none."""
        if not self.demand(seq_id, num_tokens).fits:
            return False
        return all([group.swap_in(seq_id, num_tokens) for group in self.groups])

    # 2) after the forward pass

    def write(self, seq_id: int, start: int, num_tokens: int) -> None:
        """K and V of these positions exist now, in every layer."""
        for group in self.groups:
            group.write(seq_id, start, num_tokens)

    def release(self, seq_id: int) -> None:
        """Each group lets go of what its own layers will not see."""
        for group in self.groups:
            group.release(seq_id)

    def fork(
        self, parent_seq_id: int, seq_id: int, request_id: str, reason: ForkReason = "sample", seed: int | None = None
    ) -> None:
        """The child shares every block of the parent, in every group."""
        for group in self.groups:
            group.fork(parent_seq_id, seq_id, request_id, reason, seed)

    def free(self, seq_id: int) -> None:
        """Let go of all blocks."""
        for group in self.groups:
            group.free(seq_id)

    def forget(self, seq_id: int) -> None:
        """Drop what is kept of a sequence that will not come back."""
        for group in self.groups:
            group.forget(seq_id)

    # 3) looking at it

    def block_tables(self, seq_id: int) -> list[list[int]]:
        """The table of each group, by its own block ids; the lists themselves, not to be changed."""
        return [table for group in self.groups for table in group.block_tables(seq_id)]

    def num_held(self, seq_id: int) -> int:
        """Blocks in the sequence's tables."""
        return sum(group.num_held(seq_id) for group in self.groups)

    def memory(self) -> Memory:
        """All pools together."""
        return Memory.total([group.memory() for group in self.groups])

    def snapshot(self) -> Snapshot:
        """All groups' books, by the trace's block ids."""
        whole, first_cpu = Snapshot([], [], [], [], {}, {}), 0
        for group, first in zip(self.groups, self._first_blocks, strict=True):
            part = group.snapshot()
            whole.ref_counts.extend(part.ref_counts)
            whole.block_hashes.extend(part.block_hashes)
            whole.num_filled.extend(part.num_filled)
            whole.free_queues.append([first + block_id for block_id in part.free_queues[0]])
            for seq_id, tables in part.block_tables.items():
                ids = [block_id if block_id == RELEASED else first + block_id for block_id in tables[0]]
                whole.block_tables.setdefault(seq_id, []).append(ids)
            for seq_id, cpu_ids in part.cpu_block_tables.items():
                whole.cpu_block_tables.setdefault(seq_id, []).extend(first_cpu + i for i in cpu_ids)
            first_cpu += group.swap_space.num_blocks
        return whole

    def check_integrity(self) -> None:
        """Recount everything. Raises IntegrityError with the first contradiction."""
        for group in self.groups:
            group.check_integrity()


def make_cache(
    plans: Sequence[GroupPlan],
    emit: Emit,
    block_size: int,
    enable_prefix_caching: bool,
    swap_space: int,
    bytes_per_token: Callable[[Sequence[int]], int],
) -> KVCacheManager | HybridCache:
    """The manager of one group, or a hybrid of several. `swap_space`: blocks of the CPU store for each group."""

    def maker(plan: GroupPlan) -> Callable[[Emit], KVCacheManager]:
        return lambda emit: KVCacheManager(
            plan.num_blocks,
            block_size,
            enable_prefix_caching,
            emit,
            swap_space,
            bytes_per_token(plan.layers),
            plan.retention,
        )

    makers = [maker(plan) for plan in plans]
    return makers[0](emit) if len(makers) == 1 else HybridCache(emit, makers)


def _translating(emit: Emit, first: int, first_cpu: int) -> Emit:
    """For the groups after the first: the trace's ids; what concerns the sequence as a whole is told only once."""

    def translated(op: Op) -> None:
        match op:
            case Write() | Fork():
                return
            case Copy():
                emit(replace(op, src=first + op.src, dst=first + op.dst))
            case SwapOut() | SwapIn():
                emit(replace(op, block_id=first + op.block_id, cpu_block_id=first_cpu + op.cpu_block_id))
            case Drop():
                emit(replace(op, cpu_block_id=first_cpu + op.cpu_block_id))
            case _:
                emit(replace(op, block_id=first + op.block_id))  # type: ignore[call-arg, union-attr]

    return translated
