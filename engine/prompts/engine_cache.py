"""This engine's own prefix cache over a pool of blocks, with prompts and no model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from engine.cache.block_groups import one_group
from engine.cache.kv_cache_manager import KVCacheManager
from engine.prompts.policies import Hit


class EngineCache:
    """Admits one prompt after the other, and frees each before the next. What is needed least recently is evicted."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._num_slots = num_blocks * block_size
        self._cache = KVCacheManager(one_group(num_blocks), block_size, True, lambda op: None)

    def take(self, request: int, tokens: Sequence[Sequence[int]], model: str = "", answer: Sequence[int] = ()) -> Hit:
        """Admit a prompt, say what hit, and let `answer` be computed after it; `request`: its number, larger than of
        any before it. Blocks of one model are not found by another.

        Raises:
            ValueError: the pool is smaller than the prompt and the answer.
        """
        token_ids = list(chain.from_iterable(tokens))
        whole = [*token_ids, *answer]
        if len(whole) > self._num_slots:
            raise ValueError(f"request {request + 1} has {len(whole):,} tokens, and the pool {self._num_slots:,}")
        cache = self._cache
        cache.tick(request, request)
        match = cache.lookup(request, token_ids, model)
        found = cache.explain(request, token_ids, model, match.num_tokens)
        cache.remember(request, whole, model)
        cache.allocate(request, len(whole), "admission", match.hits)
        cache.cache_blocks(request, whole, len(whole), model)
        if len(whole) > match.num_tokens:
            cache.write(request, match.num_tokens, len(whole) - match.num_tokens)
        cache.free(request, "finish")
        cache.forget(request)
        if found.lost is not None:
            return Hit(match.num_tokens, "evicted", str(found.lost.evicted_for + 1))
        return Hit(match.num_tokens, "rounded" if match.num_tokens < found.num_shared_tokens else None)
