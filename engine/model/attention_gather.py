"""Attention by gather and matmul in plain torch, for the CPU and for devices without a dedicated kernel.

    scores  = softcap(q k^T * scaling), -inf where a key is not visible
    weights = softmax(scores) in float32
    out     = weights v

Grouped queries are batched over KV heads, q as [Hkv, G, D], instead of repeating keys and values G times.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.cache.kv_store import KVStore
from engine.model.attention_backend import (
    AttentionBackend,
    AttentionCall,
    AttentionOutput,
    DecodeWeights,
    PrefillWeights,
)
from engine.model.batch import PrefillSpan, StepBatch

PIECE = 128  # number of queries of a prefill whose scores are in memory at a time


class GatherAttention(AttentionBackend):
    """Gather and matmul. The weights are always computed, so returning them changes no output."""

    def forward(
        self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
    ) -> AttentionOutput:
        if not batch.prefills:
            out, decode = self.decode(call, q, store, batch)
            return AttentionOutput(out, decode, [])
        out = q.new_empty((q.shape[0], q.shape[1], store.shapes[call.layer].v_head_dim))
        prefills = self.prefill(call, q, out, store, batch, needs_weights)
        if batch.decode_tokens is None:
            return AttentionOutput(out, None, prefills)
        decoded, decode = self.decode(call, q[batch.decode_tokens], store, batch)
        out[batch.decode_tokens] = decoded
        return AttentionOutput(out, decode, prefills)

    def decode(self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch) -> tuple[Tensor, DecodeWeights]:
        """Attend for all sequences with one new token: q [n, Hq, D] -> out [n, Hq, Dv] and their weights."""
        return gather_decode(call, q, store, batch)

    def prefill(
        self, call: AttentionCall, q: Tensor, out: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
    ) -> list[PrefillWeights]:
        """Attend for all slices of several tokens: write their rows of `out` [T, Hq, Dv] and return their weights."""
        found = []
        for span in batch.prefills:
            own, hidden = q[span.begin : span.end], self.hidden(call, batch, span)
            out[span.begin : span.end], weights = gather_prefill(call, own, store, batch, span, needs_weights, hidden)
            found.append(weights)
        return [weights for weights in found if weights is not None]

    def hidden(self, call: AttentionCall, batch: StepBatch, span: PrefillSpan) -> Tensor | None:
        """Return a mask [Hkv, T, C] of keys to hide in addition to those that causality and windows hide, or None."""
        return None


def gather_decode(
    call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, hidden: Tensor | None = None
) -> tuple[Tensor, DecodeWeights]:
    """Attend for all sequences with one new token: q [n, Hq, D] -> out [n, Hq, Dv]; `hidden` [n, Hkv, L] masks keys."""
    n, num_heads, head_dim = q.shape
    num_kv_heads, _, v_head_dim = store.shapes[call.layer]
    reach = batch.reach(call.layer, call.sliding_window)
    keys = batch.decode_keys(reach)
    length = keys.slots.shape[1]
    if keys.first_slot is not None:
        k, v = store.view(call.layer, keys.first_slot, length)
        k, v = k.transpose(0, 1), v.transpose(0, 1)  # [Hkv, L, D], [Hkv, L, Dv]
    else:
        k, v = store.gather_heads(call.layer, batch.decode_head_rows(reach, num_kv_heads))
        k, v = k.view(n * num_kv_heads, length, head_dim), v.view(n * num_kv_heads, length, v_head_dim)
    grouped = q.reshape(n * num_kv_heads, num_heads // num_kv_heads, head_dim)
    if call.softcap is None:
        # one operation for product, scaling and mask: for few tokens an operation costs more than its arithmetic
        bias = batch.decode_bias(reach, num_kv_heads, q.dtype)  # [n * Hkv or 1, 1, L or 1]
        if hidden is not None:
            bias = torch.where(hidden.view(n * num_kv_heads, 1, length), float("-inf"), bias)
        scores = torch.baddbmm(bias, grouped, k.transpose(1, 2), alpha=call.scaling)  # [n * Hkv, G, L]
        weights = _softmax(call, scores.view(n, num_heads, length), None, (1, num_heads, 1))
    else:
        scores = torch.bmm(grouped, k.transpose(1, 2)).mul_(call.scaling)
        weights = _softmax(
            call, scores.view(n, num_heads, length), _merge_masks(keys.mask, hidden, num_heads), (1, num_heads, 1)
        )
    out = torch.bmm(weights.view(n * num_kv_heads, -1, length), v)  # [n * Hkv, G, Dv]
    return out.view(n, num_heads, v_head_dim), DecodeWeights(keys.key_starts, weights)


def gather_prefill(
    call: AttentionCall,
    q: Tensor,
    store: KVStore,
    batch: StepBatch,
    span: PrefillSpan,
    needs_weights: bool,
    hidden: Tensor | None = None,
) -> tuple[Tensor, PrefillWeights | None]:
    """Attend for a sequence's slice: q [T, Hq, D] -> out [T, Hq, Dv]. `hidden` [Hkv, T, C] masks further keys."""
    keys = batch.prefill_keys(span, batch.reach(call.layer, call.sliding_window))
    length = keys.slots.shape[0]
    if keys.first_slot is not None:
        k, v = store.view(call.layer, keys.first_slot, length)
    else:
        k, v = store.gather(call.layer, keys.slots)
    k, v = k.transpose(0, 1), v.transpose(0, 1)  # [Hkv, C, D], [Hkv, C, Dv]
    mask = keys.mask if hidden is None else keys.mask | hidden.repeat_interleave(q.shape[1] // k.shape[0], dim=0)
    out, weights = attend_slice(call, q, k, v, mask, needs_weights)
    return out, None if weights is None else PrefillWeights(span, keys.key_start, weights)


def _merge_masks(mask: Tensor | None, hidden: Tensor | None, num_heads: int) -> Tensor | None:
    """Return the mask [n, 1 or Hq, L] of keys that are hidden by `mask` [n, 1, L] or by `hidden` [n, Hkv, L]."""
    if hidden is None:
        return mask
    hidden = hidden.repeat_interleave(num_heads // hidden.shape[1], dim=1)
    return hidden if mask is None else mask | hidden


def attend_slice(
    call: AttentionCall, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor, needs_weights: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Attend for a sequence: q [T, Hq, D], k [Hkv, C, D], v [Hkv, C, Dv], hidden [T, C] or [Hq, T, C] -> out [T, Hq,
    Dv] and, if needed, the weights [Hq, T, C]. The last query belongs to the last key; no query sees later keys.

    Queries are processed in pieces, so that their scores stay in cache: those of 896 tokens and 8 heads take 25.7 MB a
    layer, and half of them are masked. The pieces do not depend on `needs_weights`, so neither does the output.
    """
    num_tokens, length = hidden.shape[-2:]
    if num_tokens <= PIECE:
        return _attend_piece(call, q, k, v, hidden)
    out = q.new_empty((num_tokens, q.shape[1], v.shape[2]))
    weights = q.new_zeros((q.shape[1], num_tokens, length)) if needs_weights else None
    for begin in range(0, num_tokens, PIECE):
        end = min(begin + PIECE, num_tokens)
        seen = length - num_tokens + end
        out[begin:end], found = _attend_piece(
            call, q[begin:end], k[:, :seen], v[:, :seen], hidden[..., begin:end, :seen]
        )
        if weights is not None:
            weights[:, begin:end, :seen] = found
    return out, weights


def _attend_piece(call: AttentionCall, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    num_tokens, num_heads, head_dim = q.shape
    num_kv_heads, length, v_head_dim = v.shape
    grouped = q.transpose(0, 1).reshape(num_kv_heads, -1, head_dim)  # [Hkv, G * T, D]
    scores = torch.bmm(grouped, k.transpose(1, 2)).mul_(call.scaling)  # [Hkv, G * T, C]
    weights = _softmax(call, scores.view(num_heads, num_tokens, length), hidden, (num_heads, 1, 1))
    out = torch.bmm(weights.view(num_kv_heads, -1, length), v)  # [Hkv, G * T, Dv]
    return out.view(num_heads, num_tokens, v_head_dim).transpose(0, 1), weights


def _softmax(call: AttentionCall, scores: Tensor, mask: Tensor | None, sink_shape: tuple[int, int, int]) -> Tensor:
    """Return the weights in the dtype of `scores`, which may be overwritten; `sink_shape` aligns [Hq] with it."""
    if call.softcap is not None:
        scores = torch.tanh(scores / call.softcap) * call.softcap
    if mask is not None:
        scores.masked_fill_(mask, float("-inf"))
    if call.sinks is None:
        return torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)
    sinks = call.sinks.to(scores.dtype).view(sink_shape).expand(*scores.shape[:-1], 1)
    weights = torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1, dtype=torch.float32)
    return weights[..., :-1].contiguous().to(scores.dtype)
