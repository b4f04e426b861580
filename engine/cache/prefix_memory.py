"""Why a prompt did not hit: what the prefix cache remembers of sequences and blocks that it no longer holds.

Nothing here decides anything. The memory is bounded, and says "forgotten" rather than guess beyond its bounds: the
RECENT_SEQUENCES most recently admitted sequences, the EVICTED_BLOCKS most recently evicted hashes.
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
    """Where content was until it was evicted."""

    block_id: int
    evicted_in: int  # record index
    evicted_for: int  # seq_id of the sequence that took the block


class Explanation(NamedTuple):
    """Why hits end where they do; the fields of the `lookup` operation."""

    reason: LookupReason | None = None
    closest_seq_id: int | None = None
    num_shared_tokens: int = 0
    lost: LostBlock | None = None

    def of(self, found: Lookup) -> Lookup:
        """Return the lookup with this reason."""
        return replace(
            found,
            reason=self.reason,
            closest_seq_id=self.closest_seq_id,
            num_shared_tokens=self.num_shared_tokens,
            lost_block_id=self.lost.block_id if self.lost else None,
            evicted_in=self.lost.evicted_in if self.lost else None,
            evicted_for=self.lost.evicted_for if self.lost else None,
        )


@dataclass(slots=True)
class RecentSequence:
    """A sequence that was admitted. `token_ids` is its own list and grows with it."""

    seq_id: int
    token_ids: Sequence[int]
    cache_salt: str | None
    mark: Mark = unmarked
    num_computed: int | None = None  # when it gave up its blocks; None while it holds them


class EvictedBlocks:
    """The hashes that one group of layers evicted most recently, and where their content was."""

    def __init__(self) -> None:
        self._lost: OrderedDict[bytes, LostBlock] = OrderedDict()

    def add(self, block_hash: bytes, lost: LostBlock) -> None:
        """A hash left the cache."""
        if block_hash in self._lost:
            self._lost.move_to_end(block_hash)
        self._lost[block_hash] = lost
        if len(self._lost) > EVICTED_BLOCKS:
            self._lost.popitem(last=False)

    def find(self, block_hash: bytes) -> LostBlock | None:
        """Return where that content was; None: it was never evicted, or too long ago."""
        return self._lost.get(block_hash)


class PrefixMemory:
    """The sequences that were admitted most recently."""

    def __init__(self) -> None:
        self._recent: OrderedDict[int, RecentSequence] = OrderedDict()

    def admitted(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None, mark: Mark = unmarked) -> None:
        """A sequence got blocks."""
        self._recent[seq_id] = RecentSequence(seq_id, token_ids, cache_salt, mark)
        self._recent.move_to_end(seq_id)
        if len(self._recent) > RECENT_SEQUENCES:
            self._recent.popitem(last=False)

    def released(self, seq_id: int, num_computed: int) -> None:
        """The sequence gave up its blocks; `num_computed` tokens were computed."""
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
        """Return why `num_hit` tokens hit and no more.

        `all_hit`: every block that may hit did. `lost`: where the content of the first block that did not was.
        """
        needed = num_hit + block_size
        own_mark = mark(0, needed)
        alike: list[RecentSequence] = []  # those of which a block could hit
        others: list[RecentSequence] = []
        for sequence in self._recent.values():
            can_hit = sequence.cache_salt == cache_salt and sequence.mark(0, needed) == own_mark
            (alike if can_hit else others).append(sequence)
        closest, shared = self._closest(token_ids, alike)
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
            return "forgotten"  # what hit came from a sequence that is no longer remembered
        if closest is None:
            return "nothing_shared"
        if shared >= needed:
            # while it holds blocks, what it computed is cached: the block is still to come
            computed = closest.num_computed
            return "not_computed" if computed is None or computed < needed else "forgotten"
        if num_hit == 0:
            return "shared_too_short"
        return "earlier_ended" if shared == len(closest.token_ids) else "differs"

    @staticmethod
    def _closest(token_ids: Sequence[int], candidates: Sequence[RecentSequence]) -> tuple[RecentSequence | None, int]:
        """Return the one with the longest common beginning, the latest of equals; None when none shares a token."""
        best, longest = None, 0
        for candidate in reversed(candidates):
            # a candidate can only beat the best so far if it agrees in the next position
            if len(candidate.token_ids) > longest and len(token_ids) > longest:
                if candidate.token_ids[longest] != token_ids[longest]:
                    continue
                shared = common_prefix(candidate.token_ids, token_ids)
                if shared > longest:
                    best, longest = candidate, shared
        return best, longest


def common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return the number of leading elements that are equal. Bisects over slices, which compare at C speed."""
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
    """Return the number of leading elements that are equal in two sequences, each given in parts of one type."""
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
