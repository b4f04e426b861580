"""Attention over one cache per sequence (`sequence_caches`), computed separately for each slice of a step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cache.attention_span import AttentionSpan
from engine.model.attention import Recorder
from engine.model.attention_backend import AttentionCall, AttentionOutput, DecodeWeights, PrefillWeights
from engine.model.attention_gather import attend_slice
from engine.model.batch import StepBatch
from engine.model.sequence_caches import SequenceCaches


@dataclass(slots=True)
class SequenceContext:
    """Context of a step: appends new keys and values to each sequence's cache, and attends over the whole cache."""

    batch: StepBatch
    caches: SequenceCaches
    recorder: Recorder | None = None
    layers_called: int = 0

    def attend(self, call: AttentionCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.layers_called += 1
        batch = self.batch
        reach = batch.reach(call.layer, call.sliding_window)
        out = q.new_empty((q.shape[0], q.shape[1], v.shape[2]))
        weights: list[Tensor] = []  # per slice [Hq, T, C]
        begin = 0
        for piece in batch.slices:
            end, context_len = begin + len(piece.token_ids), piece.start + len(piece.token_ids)
            k_new, v_new = (x[begin:end].transpose(0, 1)[None] for x in (k, v))  # [1, Hkv, T, D]
            keys, values = self.caches.of(piece.seq_id).update(call.layer, k_new, v_new)
            hidden = _hidden(piece.start, context_len, reach, q.device)
            out[begin:end], found = attend_slice(
                call, q[begin:end], keys[0, :, :context_len], values[0, :, :context_len], hidden
            )
            assert found is not None
            weights.append(found)
            begin = end
        if self.recorder is not None and self.recorder.wants(call.layer):
            self.recorder.record(call.layer, q, k, v, _attended(out, weights, batch))
        return out


def _hidden(start: int, context_len: int, reach: AttentionSpan, device: torch.device) -> Tensor:
    """Return a mask [T, C], True where the query at start + row does not see the key."""
    queries = torch.arange(start, context_len, device=device)[:, None]
    keys = torch.arange(context_len, device=device)[None]
    hidden = keys > queries
    if reach.window is not None:
        hidden |= (keys <= queries - reach.window) & (keys >= reach.sinks)
    return hidden


def _attended(out: Tensor, weights: list[Tensor], batch: StepBatch) -> AttentionOutput:
    """Return the weights in the backends' form: slices of one token padded together, longer ones separately."""
    rows = [weights[index][:, 0] for index in batch.decode_indices]  # [Hq, C]
    decode = None
    if rows:
        longest = max(row.shape[1] for row in rows)
        padded = [torch.nn.functional.pad(row, (0, longest - row.shape[1])) for row in rows]
        decode = DecodeWeights([0] * len(rows), torch.stack(padded))
    prefills = [PrefillWeights(span, 0, weights[span.slice_index]) for span in batch.prefills]
    return AttentionOutput(out, decode, prefills)
