"""Which cached blocks a sequence's beginning matches, and why no more of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.cache.block_pool import BlockPool
from engine.cache.prefix_cache import HashChain, PrefixMatch
from engine.cache.prefix_memory import Explanation, PrefixMemory
from engine.cache.reach import Retention
from engine.trace.events import RELEASED


class PrefixIndex:
    """Looks sequences up in a pool. Remembers the hashes of each sequence's blocks, so that each is computed once."""

    def __init__(self, pool: BlockPool, block_size: int, enabled: bool, retention: Retention | None = None) -> None:
        self.enabled = enabled
        self.memory = PrefixMemory()
        self.chains: dict[int, HashChain] = {}  # by seq_id
        self._pool = pool
        self._retention = retention
        self._block_size = block_size

    def lookup(
        self,
        seq_id: int,
        token_ids: Sequence[int],
        cache_salt: str | None,
        skip: bool,
        at_most: int | None = None,
    ) -> PrefixMatch:
        """The longest cached prefix, whole blocks, at most len(token_ids) - 1 tokens and `at_most` blocks.

        One token is left out because the last token must run through the model to get logits. `skip`: nothing may hit,
        because the logits of every token are wanted. Under a window only those blocks count that the next query sees:
        what was before them may be gone, and is not taken if it is there.
        """
        if not self.enabled:
            return PrefixMatch([], 0, "disabled")
        if skip:
            return PrefixMatch([], 0, "skipped")
        num_full = (len(token_ids) - 1) // self._block_size
        if num_full <= 0:
            return PrefixMatch([], 0, "too_short")
        chain = self.chain(seq_id, cache_salt)
        hits: list[int] = []
        for logical in range(num_full if at_most is None else min(num_full, at_most)):
            block = self._pool.find(chain.hash_at(logical, token_ids))
            if block is None and self._retention is None:
                break
            hits.append(RELEASED if block is None else block.block_id)
        if self._retention is not None:
            self._seen_only(hits, self._retention)
        return PrefixMatch(hits, len(hits) * self._block_size, "hit" if hits else "miss")

    def _seen_only(self, hits: list[int], retention: Retention) -> None:
        """Cut `hits` to the longest beginning of which everything that its next query sees is there."""
        first = retention.first(self._block_size)
        sinks_end = next((i for i, block_id in enumerate(hits[:first]) if block_id == RELEASED), len(hits))
        del hits[sinks_end:]
        while hits:
            begin = max(first, retention.end(len(hits) * self._block_size, self._block_size))
            gone = next((i for i in range(len(hits) - 1, begin - 1, -1) if hits[i] == RELEASED), None)
            if gone is None:
                hits[first:begin] = [RELEASED] * (begin - first)
                return
            del hits[gone:]  # every shorter beginning with this block in it looks at it too

    def explain(
        self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None, num_hit_tokens: int
    ) -> Explanation:
        """Why a lookup that was made just before found no more."""
        if not self.enabled:
            return Explanation()
        next_hash, logical = None, num_hit_tokens // self._block_size
        if logical < (len(token_ids) - 1) // self._block_size:
            chain = self.chain(seq_id, cache_salt)
            next_hash = chain.hash_at(logical, token_ids)
            for seen in self._needed(logical + 1):
                if self._pool.find(chain.hash_at(seen, token_ids)) is None:
                    next_hash = chain.hash_at(seen, token_ids)
                    break
        return self.memory.explain(token_ids, cache_salt, num_hit_tokens, self._block_size, next_hash)

    def _needed(self, num_blocks: int) -> Iterator[int]:
        """Logical blocks that must be there for so many to hit."""
        gone = range(0)
        if self._retention is not None:
            gone = range(
                self._retention.first(self._block_size),
                self._retention.end(num_blocks * self._block_size, self._block_size),
            )
        return (logical for logical in range(num_blocks) if logical not in gone)

    def chain(self, seq_id: int, cache_salt: str | None) -> HashChain:
        """The sequence's hashes. Raises ValueError when it came with another salt before."""
        chain = self.chains.get(seq_id)
        if chain is None:
            chain = self.chains[seq_id] = HashChain(self._block_size, cache_salt)
        elif chain.cache_salt != cache_salt:
            raise ValueError(f"sequence {seq_id} was hashed with another cache_salt")
        return chain

    def fork(self, parent_seq_id: int, seq_id: int) -> None:
        """The child has the parent's hashes so far."""
        if parent_seq_id in self.chains:
            self.chains[seq_id] = self.chains[parent_seq_id].copy()
