"""Which cached blocks a sequence's beginning matches, and why no more of them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cache.block_pool import BlockPool
from engine.cache.prefix_cache import HashChain, PrefixMatch
from engine.cache.prefix_memory import Explanation, PrefixMemory


class PrefixIndex:
    """Looks sequences up in a pool. Remembers the hashes of each sequence's blocks, so that each is computed once."""

    def __init__(self, pool: BlockPool, block_size: int, enabled: bool) -> None:
        self.enabled = enabled
        self.memory = PrefixMemory()
        self.chains: dict[int, HashChain] = {}  # by seq_id
        self._pool = pool
        self._block_size = block_size

    def lookup(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None, skip: bool) -> PrefixMatch:
        """The longest cached prefix, whole blocks, at most len(token_ids) - 1 tokens.

        One token is left out because the last token must run through the model to get logits. `skip`: nothing may hit,
        because the logits of every token are wanted.
        """
        if not self.enabled:
            return PrefixMatch([], 0, "disabled")
        if skip:
            return PrefixMatch([], 0, "skipped")
        num_full = (len(token_ids) - 1) // self._block_size
        if num_full <= 0:
            return PrefixMatch([], 0, "too_short")
        chain = self.chain(seq_id, cache_salt)
        block_ids: list[int] = []
        for logical in range(num_full):
            block = self._pool.find(chain.hash_at(logical, token_ids))
            if block is None:
                break
            block_ids.append(block.block_id)
        return PrefixMatch(block_ids, len(block_ids) * self._block_size, "hit" if block_ids else "miss")

    def explain(
        self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None, num_hit_tokens: int
    ) -> Explanation:
        """Why a lookup that was made just before found no more."""
        if not self.enabled:
            return Explanation()
        next_hash, logical = None, num_hit_tokens // self._block_size
        if logical < (len(token_ids) - 1) // self._block_size:
            next_hash = self.chain(seq_id, cache_salt).hash_at(logical, token_ids)
        return self.memory.explain(token_ids, cache_salt, num_hit_tokens, self._block_size, next_hash)

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
