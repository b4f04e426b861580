"""Lookup of the longest cached prefix of a sequence in all groups of layers, and the reason for a miss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from engine.cache.attention_span import RetentionPolicy
from engine.cache.block_pool import BlockPool
from engine.cache.guards import MisuseError
from engine.cache.prefix_cache import HashChain, Mark, PrefixMatch, unmarked
from engine.cache.prefix_match import BlockIndex, longest_match
from engine.cache.prefix_memory import EvictedBlocks, Explanation, LostBlock, PrefixMemory
from engine.trace.operations import RELEASED


class GroupIndex(NamedTuple):
    """Pool of a group of layers, with its recently evicted hashes."""

    pool: BlockPool
    retention: RetentionPolicy | None  # which blocks a query needs; None: all
    evicted: EvictedBlocks


class Marks(Protocol):
    """Marks of all sequences, which distinguish the hashes of ablated positions (`engine.model.ablation.Ablation`)."""

    def mark(self, seq_id: int, start: int, end: int) -> bytes:
        """Return the mark of positions [start, end) of a sequence; see `prefix_cache.Mark`."""
        ...

    def fork(self, parent_seq_id: int, seq_id: int) -> None:
        """Copy the parent's marks to a child."""
        ...


class PrefixIndex:
    """Lookup of sequences in the pools of all groups.

    A full block has the same hash in every group, because the hash depends on tokens, not on layers. So each sequence
    has one chain of hashes, and each hash is computed once.
    """

    def __init__(self, groups: Sequence[GroupIndex], block_size: int, enabled: bool) -> None:
        self.enabled = enabled
        self.memory = PrefixMemory()
        self.chains: dict[int, HashChain] = {}  # by seq_id
        self.marks: Marks | None = None
        self._groups = groups
        self._block_size = block_size

    def lookup(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None, skip: bool) -> PrefixMatch:
        """Return the longest prefix that is cached in every group (`longest_match`).

        `skip`: return no hits, because the caller needs the logits of every token.
        """
        if not self.enabled:
            return PrefixMatch([], 0, "disabled")
        if skip:
            return PrefixMatch([], 0, "skipped")
        if len(token_ids) <= self._block_size:
            return PrefixMatch([], 0, "too_short")
        hits = longest_match(
            [BlockIndex(group.pool.find_id, group.retention) for group in self._groups],
            self.chain(seq_id, cache_salt),
            token_ids,
            self._block_size,
        )
        if not hits:
            return PrefixMatch([], 0, "miss")
        return PrefixMatch(hits, len(hits[0]) * self._block_size, "hit")

    def check_hits(self, seq_id: int, num_tokens: int, hits: Sequence[Sequence[int]]) -> None:
        """Raise MisuseError if a hit block has another hash than the lookup found, or the hits exceed `num_tokens`."""
        num_hits = len(hits[0])
        if num_hits * self._block_size > num_tokens:
            raise MisuseError(
                f"{num_hits} hit blocks of {self._block_size} tokens exceed {num_tokens} tokens",
                "long_hit", seq_id=seq_id, said=num_hits, counted=num_tokens,
            )  # fmt: skip
        chain = self.chains.get(seq_id)
        for group, own in zip(self._groups, hits, strict=True):
            for logical, block_id in enumerate(own):
                expected = chain.parent_of(logical + 1) if chain else None
                if block_id != RELEASED and group.pool.blocks[block_id].block_hash != (expected or b""):
                    raise MisuseError(
                        f"block {block_id} no longer holds what the lookup found: allocate right after it",
                        "stale_hit", block_id=block_id,
                    )  # fmt: skip

    def explain(
        self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None, num_hit_tokens: int
    ) -> Explanation:
        """Return why the last lookup did not hit more tokens.

        If several groups have evicted the next block, the eviction of the first one is reported.
        """
        if not self.enabled:
            return Explanation()
        logical, lost = num_hit_tokens // self._block_size, None
        all_hit = logical >= (len(token_ids) - 1) // self._block_size
        if not all_hit:
            chain = self.chain(seq_id, cache_salt)
            evictions = (self._evicted(group, chain, token_ids, logical) for group in self._groups)
            lost = next((found for found in evictions if found is not None), None)
        found = self.memory.explain(
            token_ids, cache_salt, num_hit_tokens, self._block_size, all_hit, lost, self._mark_of(seq_id)
        )
        if (
            found.reason not in (None, "evicted")
            and (num_key_hits := self._num_key_hits(seq_id, token_ids, cache_salt)) > num_hit_tokens
        ):
            return found._replace(reason="no_state", num_shared_tokens=num_key_hits)
        return found

    def _num_key_hits(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None) -> int:
        """Return the number of tokens that would hit without the groups of states; 0 if there are no such groups."""
        of_keys = [group for group in self._groups if group.retention is None or not group.retention.checkpoint]
        if len(of_keys) == len(self._groups):
            return 0
        lookups = [BlockIndex(group.pool.find_id, group.retention) for group in of_keys]
        hits = longest_match(lookups, self.chain(seq_id, cache_salt), token_ids, self._block_size)
        return len(hits[0]) * self._block_size if hits else 0

    def _evicted(self, group: GroupIndex, chain: HashChain, token_ids: Sequence[int], logical: int) -> LostBlock | None:
        """Return the evicted block that prevents a hit of the blocks [0, logical] in a group; None if unknown."""
        for needed in self._needed(group.retention, (logical + 1) * self._block_size):
            block_hash = chain.hash_at(needed, token_ids)
            if group.pool.find(block_hash) is None:
                return group.evicted.find(block_hash)
        return group.evicted.find(chain.hash_at(logical, token_ids))

    def needed(self, group: int, num_tokens: int) -> list[int]:
        """Return the logical blocks of the first `num_tokens` tokens that a later query sees in a group."""
        return list(self._needed(self._groups[group].retention, num_tokens))

    def drop_unseen(self, hits: Sequence[Sequence[int]], num_tokens: int) -> list[list[int]]:
        """Return the hits without the blocks that no query after `num_tokens` tokens sees."""
        needed = [set(self.needed(group, num_tokens)) for group in range(len(hits))]
        return [
            [block_id if logical in seen else RELEASED for logical, block_id in enumerate(own)]
            for own, seen in zip(hits, needed, strict=True)
        ]

    def _needed(self, retention: RetentionPolicy | None, num_tokens: int) -> Iterator[int]:
        """Return the logical blocks of the first `num_tokens` tokens that are not releasable."""
        releasable, size = range(0), self._block_size
        if retention is not None:
            releasable = range(retention.first(size), retention.end(num_tokens, size))
        return (logical for logical in range(-(-num_tokens // size)) if logical not in releasable)

    def chain(self, seq_id: int, cache_salt: str | None) -> HashChain:
        """Return the sequence's hash chain. Raises ValueError if it has another salt."""
        chain = self.chains.get(seq_id)
        if chain is None:
            chain = self.chains[seq_id] = HashChain(self._block_size, cache_salt, self._mark_of(seq_id))
        elif chain.cache_salt != cache_salt:
            raise ValueError(f"sequence {seq_id} was hashed with another cache_salt")
        return chain

    def fork(self, parent_seq_id: int, seq_id: int) -> None:
        """Copy the parent's marks and hashes to the child."""
        if self.marks is not None:
            self.marks.fork(parent_seq_id, seq_id)
        if parent_seq_id in self.chains:
            self.chains[seq_id] = self.chains[parent_seq_id].copy(self._mark_of(seq_id))

    def remember(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None) -> None:
        """Record a sequence, to explain later misses."""
        self.memory.admitted(seq_id, token_ids, cache_salt, self._mark_of(seq_id))

    def _mark_of(self, seq_id: int) -> Mark:
        return unmarked if self.marks is None else partial(self.marks.mark, seq_id)
