"""Attention over latents: prefills attend over expanded keys and values, decodes over the latents themselves."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.cache.kv_store import KVStore
from engine.cache.latent_store import ExpandedStore
from engine.model.attention_backend import AttentionCall, DecodeWeights
from engine.model.attention_gather import GatherAttention
from engine.model.batch import StepBatch
from engine.model.latents import Latents


class LatentAttention(GatherAttention):
    """Gather and matmul; decodes attend over latents with a single KV head."""

    def __init__(self, latents: Latents) -> None:
        self._latents = latents

    def decode(self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch) -> tuple[Tensor, DecodeWeights]:
        """Decode with the expansion absorbed: q W_UK attends over the latents, and W_UV is applied to the result."""
        layer = self._latents.layers[call.layer]
        assert isinstance(store, ExpandedStore) and layer.key is not None and layer.value is not None
        plain, rotated = torch.split(q, [layer.key.shape[1], layer.shape.rotated], dim=-1)
        absorbed = torch.bmm(plain.transpose(0, 1), layer.key).transpose(0, 1)  # [n, Hq, C]
        out, weights = super().decode(call, torch.cat((absorbed, rotated), dim=-1), store.latents, batch)
        return torch.bmm(out.transpose(0, 1), layer.value).transpose(0, 1).contiguous(), weights
