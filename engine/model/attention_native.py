"""Attention by C functions over the paged pool, one for decodes and one for prefills.

In torch a layer's gather, products, mask and softmax take at least eight operations, which write every score to memory
several times, and a prefill also computes the masked half of its scores. The C functions read keys and values in place.
Stores with another dtype than float32 use `GatherAttention`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.cache.kv_plane import PlainPlane
from engine.cache.kv_store import KVStore
from engine.model.attention_backend import AttentionCall, DecodeWeights, PrefillWeights
from engine.model.attention_gather import GatherAttention
from engine.model.batch import StepBatch
from engine.model.native import NativeKernels, threads_for


class NativeAttention(GatherAttention):
    """`GatherAttention` in C. A decode always forms its weights; a prefill stores them only if they are needed."""

    def __init__(self, kernels: NativeKernels) -> None:
        self._kernels = kernels

    def decode(self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch) -> tuple[Tensor, DecodeWeights]:
        pools = _pools(call, q, store)
        if pools is None:
            return super().decode(call, q, store, batch)
        n, num_heads, width = q.shape
        num_kv_heads, _, v_width = store.shapes[call.layer]
        keys = batch.decode_keys(batch.reach(call.layer, call.sliding_window))
        length = keys.slots.shape[1]
        out = torch.empty((n, num_heads, v_width))
        weights = torch.empty((n, num_heads, length))
        self._kernels.decode_attention(
            q.data_ptr(), q.stride(0), q.stride(1), None,
            *pools,
            keys.slots.data_ptr(), keys.slots.stride(0),
            None if keys.mask is None else keys.mask.data_ptr(),
            None if call.sinks is None else call.sinks.data_ptr(),
            out.data_ptr(), weights.data_ptr(),
            n, num_heads, num_kv_heads, width, v_width, length,
            call.scaling, call.softcap or 0.0, threads_for(n * num_heads * length * width),
        )  # fmt: skip
        return out, DecodeWeights(keys.key_starts, weights)

    def prefill(
        self, call: AttentionCall, q: Tensor, out: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
    ) -> list[PrefillWeights]:
        pools = _pools(call, q, store)
        if pools is None:
            return super().prefill(call, q, out, store, batch, needs_weights)
        _, num_heads, width = q.shape
        num_kv_heads, _, v_width = store.shapes[call.layer]
        reach = batch.reach(call.layer, call.sliding_window)
        key_starts = [reach.first_key(span.start) for span in batch.prefills]
        shapes = [
            (num_heads, span.end - span.begin, span.context_len - key_start)
            for span, key_start in zip(batch.prefills, key_starts, strict=True)
        ]
        weights = torch.empty(sum(map(math.prod, shapes))) if needs_weights else None
        failed = self._kernels.prefill_spans(
            q.data_ptr(), q.stride(0), q.stride(1), *pools,
            batch.prefill_spans(reach).buffer_info()[0], len(batch.prefills),
            None if call.sinks is None else call.sinks.data_ptr(),
            out.data_ptr(), None if weights is None else weights.data_ptr(), None,
            reach.window or 0, reach.sinks, num_heads, num_kv_heads, width, v_width,
            call.scaling, call.softcap or 0.0, torch.get_num_threads(),
        )  # fmt: skip
        if failed:
            raise MemoryError(f"out of memory in the attention of {q.shape[0]} tokens")
        if weights is None:
            return []
        parts = torch.split(weights, list(map(math.prod, shapes)))
        found = zip(batch.prefills, key_starts, parts, shapes, strict=True)
        return [PrefillWeights(span, start, part.view(shape)) for span, start, part, shape in found]


def _pools(call: AttentionCall, q: Tensor, store: KVStore) -> tuple[int, int] | None:
    """Return the addresses of a layer's keys and values, or None if the C functions do not support the layout."""
    planes = store.keys[call.layer], store.values[call.layer]
    if q.dtype != torch.float32 or q.stride(2) != 1:
        return None
    if not all(isinstance(plane, PlainPlane) and plane.dtype == q.dtype for plane in planes):
        return None
    return planes[0].pools[0].data_ptr(), planes[1].pools[0].data_ptr()
