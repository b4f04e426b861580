"""Caches per sequence, which store K and V as transformers does; alternatives to the block store.

    concat    two tensors per layer, to which each step concatenates its tokens, as in models of transformers with
              `layer_past` (GPT-2 in v2 to v4.35: `key = torch.cat((past_key, key), dim=-2)`)
    dynamic   transformers' DynamicCache, whose `DynamicLayer.update` does the same
    static    the layers of transformers' StaticCache, allocated for `max_cache_len` tokens and written in place

They receive the new keys and values, as a cache of transformers does, and return all of the sequence: [1, Hkv, S, D].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Literal

import torch
from torch import Tensor

from engine.model.light_transformers import Cache, DynamicCache, StaticLayer, import_compiler

CacheKind = Literal["concat", "dynamic", "static"]

Place = tuple[int, int, str]  # name of a tensor: sequence, layer, "k" or "v"


class SequenceCache(ABC):
    """Keys and values of one sequence."""

    @abstractmethod
    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append k [1, Hkv, T, D] and v [1, Hkv, T, Dv]; return the complete storage, filled positions first."""

    @abstractmethod
    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """Return the tensors of each layer."""


class ConcatenatedCache(SequenceCache):
    """Cache of two tensors per layer, which are replaced in each step."""

    def __init__(self, num_layers: int) -> None:
        self._past: list[tuple[Tensor, Tensor] | None] = [None] * num_layers

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        past = self._past[layer]
        # the first pair is copied too, because the model's tensors are views of the complete projection
        pair = (k.contiguous(), v.contiguous()) if past is None else _joined(past, (k, v))
        self._past[layer] = pair
        return pair

    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        return [pair for pair in self._past if pair is not None]


def _joined(past: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return torch.cat((past[0], new[0]), dim=-2), torch.cat((past[1], new[1]), dim=-2)


class TransformersCache(SequenceCache):
    """Wrapper of a transformers cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = self._cache.update(k, v, layer)
        return found

    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        return [(layer.keys, layer.values) for layer in self._cache.layers if layer.is_initialized]


class SequenceCaches:
    """Caches of all running sequences."""

    def __init__(self, kind: CacheKind, num_layers: int, max_cache_len: int) -> None:
        """`max_cache_len`: capacity of a static cache, in tokens."""
        self.kind = kind
        self._num_layers = num_layers
        self._max_cache_len = max_cache_len
        self._caches: dict[int, SequenceCache] = {}
        if kind == "static":
            import_compiler()  # else StaticLayer would import it in the first step, which takes seconds

    def begin(self, seq_id: int) -> None:
        """Create an empty cache for a sequence."""
        self._caches[seq_id] = self._new()

    def of(self, seq_id: int) -> SequenceCache:
        """Return the cache of a sequence. Raises KeyError if it has none."""
        return self._caches[seq_id]

    def keep_only(self, seq_ids: Collection[int]) -> None:
        """Drop the caches of all other sequences."""
        for seq_id in self._caches.keys() - set(seq_ids):
            del self._caches[seq_id]

    def tensors(self) -> dict[Place, Tensor]:
        """Return all tensors of K and V, by sequence, layer and kind."""
        return {
            (seq_id, layer, name): tensor
            for seq_id, cache in self._caches.items()
            for layer, pair in enumerate(cache.pairs())
            for name, tensor in zip("kv", pair, strict=True)
        }

    def _new(self) -> SequenceCache:
        if self.kind == "concat":
            return ConcatenatedCache(self._num_layers)
        if self.kind == "dynamic":
            # without the model's configuration every layer caches all tokens; attention applies the windows
            return TransformersCache(DynamicCache())
        layers = [StaticLayer(max_cache_len=self._max_cache_len) for _ in range(self._num_layers)]
        return TransformersCache(Cache(layers=layers))
