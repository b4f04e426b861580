"""Attention computed by its formula, one query and head at a time, in float64; every backend is tested against it."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.cache.attention_span import WindowPolicy
from engine.cache.kv_store import KVStore
from engine.model.attention_backend import (
    AttentionBackend,
    AttentionCall,
    AttentionOutput,
    DecodeWeights,
    PrefillWeights,
)
from engine.model.batch import StepBatch


class ReferenceAttention(AttentionBackend):
    """Slow reference backend. It reads block tables itself, so it shares no index arithmetic with other backends."""

    def forward(
        self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
    ) -> AttentionOutput:
        num_heads = q.shape[1]
        group = num_heads // store.shapes[call.layer].num_kv_heads
        out = q.new_empty((q.shape[0], num_heads, store.shapes[call.layer].v_head_dim))
        rows: list[Tensor] = []  # per packed token: [Hq, context_len], 0 where not visible
        token = 0
        for piece in batch.slices:
            pool = batch.group(call.layer, call.sliding_window)
            table, first_block = piece.block_tables[pool], batch.first_block(pool)
            end = piece.start + len(piece.token_ids)
            cached: dict[int, list[Tensor]] = {}  # by position: k [Hkv, D] and v [Hkv, Dv]
            for position in range(piece.start, end):
                visible = _visible(call, batch.policy, position)
                for key in (key for key in visible if key not in cached):
                    block_id, offset = table[key // store.block_size], key % store.block_size
                    slot = torch.tensor([(block_id - first_block) * store.block_size + offset], device=q.device)
                    cached[key] = [x[0].double() for x in store.gather(call.layer, slot)]
                row = q.new_zeros((num_heads, end))
                for head in range(num_heads):
                    k = [cached[key][0][head // group] for key in visible]
                    v = [cached[key][1][head // group] for key in visible]
                    scores = torch.stack(k) @ q[token, head].double() * call.scaling
                    if call.softcap is not None:
                        scores = call.softcap * torch.tanh(scores / call.softcap)
                    if call.sinks is not None:
                        scores = torch.cat([scores, call.sinks[head].double()[None]])
                    weights = torch.softmax(scores, dim=0)[: len(k)]
                    row[head, visible] = weights.to(q.dtype)
                    out[token, head] = (weights @ torch.stack(v)).to(q.dtype)
                rows.append(row)
                token += 1
        return AttentionOutput(out, self._decode(call, rows, batch), self._prefills(call, rows, batch))

    @staticmethod
    def _decode(call: AttentionCall, rows: list[Tensor], batch: StepBatch) -> DecodeWeights | None:
        if not batch.decode_indices:
            return None
        chosen, starts = [], []
        for index in batch.decode_indices:
            row = rows[batch.query_start_loc[index]]
            starts.append(_visible(call, batch.policy, row.shape[1] - 1)[0])
            chosen.append(row[:, starts[-1] :])
        longest = max(row.shape[1] for row in chosen)
        padded = [torch.nn.functional.pad(row, (0, longest - row.shape[1])) for row in chosen]
        return DecodeWeights(starts, torch.stack(padded))

    @staticmethod
    def _prefills(call: AttentionCall, rows: list[Tensor], batch: StepBatch) -> list[PrefillWeights]:
        weights = []
        for span in batch.prefills:
            first = _visible(call, batch.policy, span.start)[0]
            block = torch.stack(rows[span.begin : span.end], dim=1)  # [Hq, T, context_len]
            weights.append(PrefillWeights(span, first, block[:, :, first:]))
        return weights


def _visible(call: AttentionCall, policy: WindowPolicy | None, query: int) -> list[int]:
    """Return the positions of the keys that the query at position `query` sees, ascending."""
    window = call.sliding_window
    is_exempt = policy is not None and policy.pattern is not None and (call.layer + 1) % policy.pattern == 0
    if policy is not None and not is_exempt and (window is None or window > policy.window):
        return [key for key in range(query + 1) if key < policy.sinks or query - key < policy.window]
    return [key for key in range(query + 1) if window is None or query - key < window]
