"""Attention of decoding sequences by a C function over the paged pool.

At a batch of 16 the gather, the product, the softmax and the other product of one layer are eight tensor operations and
copy every key; the function reads keys and values where they lie. Prefills, and stores that hold something else than
float32, go the way of `GatherAttention`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.cache.kv_plane import PlainPlane
from engine.cache.kv_store import KVStore
from engine.model.attention_backend import AttentionCall, DecodeWeights
from engine.model.attention_gather import GatherAttention
from engine.model.batch import StepBatch
from engine.model.native import NativeKernels, threads_for


class NativeAttention(GatherAttention):
    """`GatherAttention` with a decode of its own; the weights are there either way, so showing them changes nothing."""

    def __init__(self, kernels: NativeKernels) -> None:
        self._kernels = kernels

    def decode(self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch) -> tuple[Tensor, DecodeWeights]:
        keys_plane, values_plane = store.keys[call.layer], store.values[call.layer]
        if not (isinstance(keys_plane, PlainPlane) and isinstance(values_plane, PlainPlane)):
            return super().decode(call, q, store, batch)
        if q.dtype != torch.float32 or keys_plane.dtype != q.dtype or q.stride(2) != 1:
            return super().decode(call, q, store, batch)
        n, num_heads, width = q.shape
        num_kv_heads, _, v_width = store.shapes[call.layer]
        keys = batch.decode_keys(batch.reach(call.layer, call.sliding_window))
        length = keys.slots.shape[1]
        out = torch.empty((n, num_heads, v_width))
        weights = torch.empty((n, num_heads, length))
        self._kernels.decode_attention(
            q.data_ptr(), q.stride(0), q.stride(1),
            keys_plane.pools[0].data_ptr(), values_plane.pools[0].data_ptr(),
            keys.slots.data_ptr(), keys.slots.stride(0),
            None if keys.mask is None else keys.mask.data_ptr(),
            None if call.sinks is None else call.sinks.data_ptr(),
            out.data_ptr(), weights.data_ptr(),
            n, num_heads, num_kv_heads, width, v_width, length,
            call.scaling, call.softcap or 0.0, threads_for(n * num_heads * length * width),
        )  # fmt: skip
        return out, DecodeWeights(keys.key_starts, weights)
