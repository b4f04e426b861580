"""Explanation of prefix cache misses, from recently admitted sequences and recently evicted hashes.

No scheduling decision depends on it. The history is bounded by RECENT_SEQUENCES and EVICTED_BLOCKS; for older sequences
and blocks the reason is "forgotten".
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import replace

from engine.cache.prefix_cache import Mark, unmarked
from engine.trace.operations import Lookup, LookupReason

RECENT_SEQUENCES = 64
EVICTED_BLOCKS = 4096


class LostBlock(NamedTuple):
    """Evicted block."""

    block_id: int
    evicted_in: int  # record index
    evicted_for: int  # seq_id of the sequence that took the block


class Explanation(NamedTuple):
    """Reason why a lookup did not hit more tokens, as fields of the `lookup` operation."""

    reason: LookupReason | None = None
    closest_seq_id: int | None = None
    num_shared_tokens: int = 0
    lost: LostBlock | None = None

    def add_to(self, lookup: Lookup) -> Lookup:
        """Return a copy of the lookup with this reason."""
        return replace(
            lookup,
            reason=self.reason,
            closest_seq_id=self.closest_seq_id,
            num_shared_tokens=self.num_shared_tokens,
            lost_block_id=self.lost.block_id if self.lost else None,
            evicted_in=self.lost.evicted_in if self.lost else None,
            evicted_for=self.lost.evicted_for if self.lost else None,
        )


@dataclass(slots=True)
class RecentSequence:
    """Admitted sequence. `token_ids` is the sequence's own list, which grows."""

    seq_id: int
    token_ids: Sequence[int]
    cache_salt: str | None
    mark: Mark = unmarked
    num_computed: int | None = None  # computed tokens when its blocks were freed; None while it holds them


class EvictedBlocks:
    """Most recently evicted hashes of a group of layers, with their blocks."""

    def __init__(self) -> None:
        self._lost: OrderedDict[bytes, LostBlock] = OrderedDict()

    def add(self, block_hash: bytes, lost: LostBlock) -> None:
        """Add an evicted hash."""
        if block_hash in self._lost:
            self._lost.move_to_end(block_hash)
        self._lost[block_hash] = lost
        if len(self._lost) > EVICTED_BLOCKS:
            self._lost.popitem(last=False)

    def find(self, block_hash: bytes) -> LostBlock | None:
        """Return the block that was evicted with this hash, or None if there is none or it is too old."""
        return self._lost.get(block_hash)


class PrefixMemory:
    """Most recently admitted sequences."""

    def __init__(self) -> None:
        self._recent: OrderedDict[int, RecentSequence] = OrderedDict()

    def admitted(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None, mark: Mark = unmarked) -> None:
        """Add a sequence that got blocks."""
        self._recent[seq_id] = RecentSequence(seq_id, token_ids, cache_salt, mark)
        self._recent.move_to_end(seq_id)
        if len(self._recent) > RECENT_SEQUENCES:
            self._recent.popitem(last=False)

    def released(self, seq_id: int, num_computed: int) -> None:
        """Record that the blocks of a sequence with `num_computed` computed tokens were freed."""
        found = self._recent.get(seq_id)
        if found is not None:
            found.num_computed = num_computed

    def explain(
        self,
        token_ids: Sequence[int],
        cache_salt: str | None,
        num_hit: int,
        block_size: int,
        all_hit: bool,
        lost: LostBlock | None,
        mark: Mark = unmarked,
    ) -> Explanation:
        """Return the reason why only `num_hit` tokens hit.

        `all_hit`: every block that can hit did. `lost`: evicted block of the first content that missed.
        """
        needed = num_hit + block_size
        own_mark = mark(0, needed)
        candidates: list[RecentSequence] = []  # sequences whose blocks can hit
        others: list[RecentSequence] = []
        for sequence in self._recent.values():
            can_hit = sequence.cache_salt == cache_salt and sequence.mark(0, needed) == own_mark
            (candidates if can_hit else others).append(sequence)
        closest, shared = self._closest(token_ids, candidates)
        seq_id = closest.seq_id if closest else None
        if all_hit:
            return Explanation(None, seq_id, shared)
        if lost is not None:
            return Explanation("evicted", seq_id, shared, lost)
        other, shared_with_other = self._closest(token_ids, others)
        if shared < needed <= shared_with_other and other:
            reason: LookupReason = "other_salt" if other.cache_salt != cache_salt else "other_ablation"
            return Explanation(reason, other.seq_id, shared_with_other)
        return Explanation(self._reason(closest, shared, num_hit, needed), seq_id, shared)

    @staticmethod
    def _reason(closest: RecentSequence | None, shared: int, num_hit: int, needed: int) -> LookupReason:
        if shared < num_hit:
            return "forgotten"  # the sequence that computed the hit blocks is no longer in the history
        if closest is None:
            return "nothing_shared"
        if shared >= needed:
            # the full blocks that a live sequence has computed are cached, so this one is not computed yet
            computed = closest.num_computed
            return "not_computed" if computed is None or computed < needed else "forgotten"
        if num_hit == 0:
            return "shared_too_short"
        return "earlier_ended" if shared == len(closest.token_ids) else "differs"

    @staticmethod
    def _closest(token_ids: Sequence[int], candidates: Sequence[RecentSequence]) -> tuple[RecentSequence | None, int]:
        """Return the candidate with the longest common prefix, the latest on a tie; None if none shares a token."""
        best, longest = None, 0
        for candidate in reversed(candidates):
            # a candidate can only beat the best one if it has the same token at position `longest`
            if len(candidate.token_ids) > longest and len(token_ids) > longest:
                if candidate.token_ids[longest] != token_ids[longest]:
                    continue
                shared = common_prefix(candidate.token_ids, token_ids)
                if shared > longest:
                    best, longest = candidate, shared
        return best, longest


def common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return the length of the common prefix, by bisection over slices, which compare at C speed."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_prefix_of_parts(one: Iterable[Sequence[Any]], other: Iterable[Sequence[Any]]) -> int:
    """Return the length of the common prefix of two sequences, each given as consecutive parts of the same type."""
    parts = iter(one), iter(other)
    rest: list[Sequence[Any]] = [(), ()]
    count = 0
    while True:
        for side in (0, 1):
            while not rest[side]:
                part = next(parts[side], None)
                if part is None:
                    return count
                rest[side] = part
        left, right = rest
        length = min(len(left), len(right))
        shared = length if left is right else common_prefix(left, right)
        count += shared
        if shared < length:
            return count
        rest = [left[length:], right[length:]]
