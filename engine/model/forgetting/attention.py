"""Attention with KV cache compression: gather and matmul under a mask per KV head."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.cache.kv_store import KVStore
from engine.model.attention_backend import AttentionCall, AttentionOutput, DecodeWeights
from engine.model.attention_gather import GatherAttention, gather_decode
from engine.model.batch import PrefillSpan, StepBatch
from engine.model.forgetting.forgetting import Forgetting


class ForgettingAttention(GatherAttention):
    """Gather attention without the forgotten keys. If no key is forgotten, the results are those of its base class."""

    def __init__(self, forgetting: Forgetting) -> None:
        self._forgetting = forgetting

    def forward(
        self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
    ) -> AttentionOutput:
        if not self._forgetting.covers(call):
            return super().forward(call, q, store, batch, needs_weights)
        needs_weights = needs_weights or self._forgetting.policy.needs_weights
        attended = super().forward(call, q, store, batch, needs_weights)
        self._forgetting.observe(call, q, store, batch, attended)
        return attended

    def decode(self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch) -> tuple[Tensor, DecodeWeights]:
        hidden = None
        if self._forgetting.covers(call):
            pieces = [batch.slices[index] for index in batch.decode_indices]
            masks = [self._forgetting.hidden(call.layer, p.seq_id, p.start, p.start + 1) for p in pieces]
            if any(mask is not None for mask in masks):
                shape = len(pieces), store.shapes[call.layer].num_kv_heads, batch.longest
                hidden = torch.zeros(shape, dtype=torch.bool, device=q.device)
                for row, mask in zip(hidden, masks, strict=True):
                    if mask is not None:
                        row[:, : mask.shape[2]] = mask[:, 0]
        return gather_decode(call, q, store, batch, hidden)

    def hidden(self, call: AttentionCall, batch: StepBatch, span: PrefillSpan) -> Tensor | None:
        if not self._forgetting.covers(call):
            return None
        return self._forgetting.hidden(call.layer, batch.slices[span.slice_index].seq_id, span.start, span.context_len)
