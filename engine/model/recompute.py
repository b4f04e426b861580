"""Recomputation of a sequence from position 0 with an empty cache, as a reference for the cached attention.

The same weights and the same attention function run over a private store of one block, which is empty before the pass
and freed after it. Causal attention does not change earlier rows, so the result equals the rows that were captured step
by step, up to the order of floating-point additions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.cache.attention_span import WindowPolicy
from engine.model.ablation import Ablation
from engine.model.attention import StepContext
from engine.model.attention_backend import AttentionOutput
from engine.model.batch import SequenceSlice, SlotTable, StepBatch
from engine.model.forgetting.attention import ForgettingAttention
from engine.model.forgetting.forgetting import Forgetting
from engine.model.loaded import LoadedModel
from engine.model.residual import ResidualWatch
from engine.model.runner import ModelRunner
from engine.options.refusal import Refused, sentence
from engine.trace.records import AttentionRows, LayerCapture
from engine.trace.residual import ResidualStream

MAX_SCORES = 1 << 26  # Hq * tokens^2, the scores of one layer: 256 MiB in float32
MAX_WEIGHTS = 1 << 22  # heads * tokens^2 in the result: 16 MiB


class RecomputeError(Refused):
    """The request is empty or too large; the message is one sentence with the numbers."""


class Recomputed(NamedTuple):
    """Layers of a sequence, computed in one pass."""

    token_ids: list[int]  # inputs from position 0
    layers: list[LayerCapture]  # float32; `rows` of each has one entry: the chosen heads, every query over every key
    num_keys: int = 0  # keys that the last token's query heads read in `layer`, summed over heads; 0 for all layers
    residual: ResidualStream | None = None  # that of the last token, if requested


def recompute_sequence(
    model: LoadedModel,
    seq_id: int,
    token_ids: Sequence[int],
    layer: int | None,
    heads: Sequence[int] | None,
    kv_cache_dtype: str = "auto",
    policy: WindowPolicy | None = None,
    forgetting: Forgetting | None = None,
    residual: int = 0,
    ablation: Ablation | None = None,
) -> Recomputed:
    """Run all tokens in one forward pass and return the arrays of `layer` (None: each layer), with attention rows of
    the query heads `heads` (None: all).

    `kv_cache_dtype` and `policy` are the engine's, so keys are rounded and hidden as in the engine. `forgetting`: keys
    that the sequence has dropped. `residual`: if > 0, also return the residual stream of the last token, with the
    vectors of `layer` and the logit lens after `layer` at the last `residual` positions. `ablation`: the engine's.

    Raises:
        RecomputeError: there is nothing to compute, the model lacks the layer or head, `residual` has no layer, or the
            computation or its result would be too large.
        ModelError: there are more tokens than the model has positions.
    """
    facts, count = model.facts, len(token_ids)
    chosen = list(range(facts.num_heads)) if heads is None else sorted(set(heads))
    layers = range(facts.num_layers) if layer is None else [layer]
    if not count or not chosen:
        raise RecomputeError(sentence("recompute.nothing"))
    if layer is not None and not 0 <= layer < facts.num_layers:
        raise RecomputeError(sentence("recompute.no_layer", layer=layer, last=facts.num_layers - 1))
    if wrong := [head for head in chosen if not 0 <= head < facts.num_heads]:
        raise RecomputeError(sentence("recompute.no_head", head=wrong[0], last=facts.num_heads - 1))
    if residual and (layer is None or model.states is not None):
        raise RecomputeError(sentence("recompute.residual"))
    if facts.num_heads * count**2 > MAX_SCORES:
        raise RecomputeError(
            sentence("recompute.scores", count=count, num_heads=facts.num_heads, count_2=count, max_scores=MAX_SCORES)
        )
    if (numbers := len(layers) * len(chosen) * count**2) > MAX_WEIGHTS:
        sizes = {"heads": len(chosen), "tokens": count, "numbers": numbers, "most": MAX_WEIGHTS}
        key = "recompute.rows" if layer is None else "recompute.rows_of_layer"
        raise RecomputeError(sentence(key, layers=len(layers), **sizes))
    backend = ForgettingAttention(forgetting) if forgetting else None
    runner = ModelRunner(
        model, 1, block_size=count, max_model_len=count, kv_cache_dtype=kv_cache_dtype, backend=backend
    )
    recorder = _Layers(layers, chosen, seq_id)
    watch = ResidualWatch(model, layer, residual) if residual and layer is not None else None
    with torch.inference_mode():
        slices = [SequenceSlice(seq_id, list(token_ids), 0, block_tables=[[0]], samples=True)]
        batch = StepBatch(slices, SlotTable(count, count), model.device, policy)
        off = ablation.rows(slices, model.device) if ablation else ()
        context = StepContext(batch, runner.kv_store, runner.backend, recorder, off=off)
        with watch.watching(context) if watch else nullcontext():
            logits = runner.forward(batch, context)
        stream = watch.result(logits[0], count - 1) if watch else None
        num_keys = 0 if layer is None else _num_keys(model, batch, layer, forgetting)
    return Recomputed(list(token_ids), [recorder.arrays[layer] for layer in layers], num_keys, stream)


def _num_keys(model: LoadedModel, batch: StepBatch, layer: int, forgetting: Forgetting | None) -> int:
    """Return the number of keys that a layer's query heads read for the last token of the batch's only sequence."""
    facts, piece = model.facts, batch.slices[0]
    query, heads = len(piece.token_ids) - 1, model.layer_shapes[layer].num_kv_heads
    seen = torch.ones((heads, query + 1), dtype=torch.bool)
    reach = batch.reach(layer, facts.sliding_windows[layer])
    if reach.window is not None:
        seen[:, reach.sinks : max(query - reach.window + 1, reach.sinks)] = False
    if forgetting and layer in forgetting.layers:
        hidden = forgetting.hidden(layer, piece.seq_id, query, query + 1)
        if hidden is not None:
            seen &= ~hidden[:, 0].cpu()
    return int(seen.sum()) * (facts.num_heads // heads)


class _Layers:
    """Recorder of the requested layers."""

    keeps = True

    def __init__(self, layers: Sequence[int], heads: list[int], seq_id: int) -> None:
        self._layers, self._heads, self._seq_id = set(layers), heads, seq_id
        self.arrays: dict[int, LayerCapture] = {}

    def addresses(self) -> None:
        """Implement `Recorder.addresses`: C writes no layer."""

    def wants(self, layer: int) -> bool:
        """Implement `Recorder.wants`."""
        return layer in self._layers

    def record(self, layer: int, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> None:
        # a sequence of one token is packed as a decode: [1, Hq, 1] instead of [Hq, T, T]
        weights = attended.prefills[0].weights if attended.decode is None else attended.decode.weights.transpose(0, 1)
        rows = AttentionRows(
            seq_id=self._seq_id, query_start=0, key_start=0, heads=self._heads, weights=_float32(weights[self._heads])
        )
        self.arrays[layer] = LayerCapture(layer=layer, q=_float32(q), k=_float32(k), v=_float32(v), rows=[rows])


def _float32(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    array: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = tensor.float().contiguous().cpu().numpy()
    return array
