"""This engine's prefix cache over a pool of blocks, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from engine.cache.block_groups import one_group
from engine.cache.kv_cache_manager import KVCacheManager
from engine.prompts.policies import Hit


class EngineCache:
    """Admits prompts one after another, freeing each before the next. Evicts the least recently used block."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._num_slots = num_blocks * block_size
        self._cache = KVCacheManager(one_group(num_blocks), block_size, True, lambda op: None)

    def has_room(self, num_tokens: int) -> bool:
        """Return whether a sequence of `num_tokens` tokens fits into the pool."""
        return num_tokens <= self._num_slots

    def admit(self, request: int, tokens: Sequence[Sequence[int]], model: str = "", answer: Sequence[int] = ()) -> Hit:
        """Cache the blocks of a prompt and its answer, and return the prompt's hit.

        `request`: ascending request number. Blocks of one model do not hit for another. An answer that does not fit
        into the pool after its prompt is omitted. A prompt that does not fit changes nothing.
        """
        token_ids = list(chain.from_iterable(tokens))
        if not self.has_room(len(token_ids)):
            return Hit(0, "larger_than_pool")
        token_ids_with_answer = [*token_ids, *answer] if self.has_room(len(token_ids) + len(answer)) else token_ids
        cache = self._cache
        cache.tick(request, request)
        match = cache.lookup(request, token_ids, model)
        found = cache.explain(request, token_ids, model, match.num_tokens)
        cache.remember(request, token_ids_with_answer, model)
        cache.allocate(request, len(token_ids_with_answer), "admission", match.hits)
        cache.cache_blocks(request, token_ids_with_answer, len(token_ids_with_answer), model)
        if len(token_ids_with_answer) > match.num_tokens:
            cache.write(request, match.num_tokens, len(token_ids_with_answer) - match.num_tokens)
        cache.free(request, "finish")
        cache.forget(request)
        if found.lost is not None:
            return Hit(match.num_tokens, "evicted", str(found.lost.evicted_for + 1))
        return Hit(match.num_tokens, "rounded" if match.num_tokens < found.num_shared_tokens else None)
