"""Checks of a capture's arrays: shapes match header and batch, and attention rows are probabilities."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.trace.records import AttentionRows, BatchEntry, Capture, Header, LayerCapture, StepRecord

DTYPES = ("float16", "float32")
FINE_SLACK, COARSE_SLACK = 1e-3, 2e-2  # tolerance of a row's sum, for weights in float32 and in 16 bits


def wrong_in_capture(capture: Capture, record: StepRecord, header: Header) -> Iterator[str]:
    """Yield each contradiction as a sentence."""
    if capture.dtype not in DTYPES:
        yield f"dtype is {capture.dtype!r}; allowed are {' and '.join(DTYPES)}"
        return
    layers = [layer.layer for layer in capture.layers]
    if len(set(layers)) != len(layers):
        yield f"a layer is listed twice: {str(layers)[:200]}"
        return
    num_tokens = sum(len(entry.token_ids) for entry in record.batch)
    entries = {entry.seq_id: entry for entry in record.batch}
    for layer in capture.layers:
        where = f"layer {layer.layer}"
        if not 0 <= layer.layer < header.model.num_layers:
            yield f"there is no layer {layer.layer}; the model has {header.model.num_layers}"
            continue
        found = _layer(layer, capture.dtype, num_tokens, entries, header)
        yield from (f"{where}: {message}" for message in found)


def _layer(
    layer: LayerCapture, dtype: str, tokens: int, entries: dict[int, BatchEntry], header: Header
) -> Iterator[str]:
    model = header.model
    num_kv_heads, head_dim, v_head_dim = model.kv_shape(layer.layer)
    shapes = {
        "q": (layer.q, (tokens, model.num_heads, head_dim)),
        "k": (layer.k, (tokens, num_kv_heads, head_dim)),
        "v": (layer.v, (tokens, num_kv_heads, v_head_dim)),
    }
    if layer.out is not None:
        shapes["out"] = (layer.out, (tokens, model.num_heads, v_head_dim))
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            yield f"{name} has shape {list(array.shape)}, but batch and model require {list(shape)}"
        if array.dtype != dtype:
            yield f"{name} is {array.dtype}, but the capture's dtype is {dtype}"
    for rows in layer.rows:
        found = entries.get(rows.seq_id)
        if found is None:
            yield f"there are rows of sequence {rows.seq_id}, which is not in the batch"
        else:
            has_sinks = bool(model.sinks and model.sinks[layer.layer])
            yield from (
                f"rows of sequence {rows.seq_id}: {message}" for message in _rows(rows, found, dtype, header, has_sinks)
            )


def _rows(rows: AttentionRows, entry: BatchEntry, dtype: str, header: Header, has_sinks: bool) -> Iterator[str]:
    weights = rows.weights
    if weights.ndim != 3:
        yield f"weights have {weights.ndim} axes instead of 3"
        return
    num_heads, num_queries, num_keys = weights.shape
    if num_heads != len(rows.heads) or len(set(rows.heads)) != num_heads:
        yield f"weights are of {num_heads} heads, but heads is {str(rows.heads)[:200]}"
    if any(not 0 <= head < header.model.num_heads for head in rows.heads):
        yield f"heads is {str(rows.heads)[:200]}, but the model has {header.model.num_heads} heads"
    first, last = rows.query_start, rows.query_start + num_queries
    if not entry.start <= first <= last <= entry.context_len:
        yield f"queries are {first} to {last - 1}, but the step computed {entry.start} to {entry.context_len - 1}"
        return
    if not 0 <= rows.key_start <= rows.key_start + num_keys <= entry.context_len:
        yield f"keys are {rows.key_start} to {rows.key_start + num_keys - 1} of a context of {entry.context_len}"
        return
    if weights.dtype != dtype:
        yield f"weights are {weights.dtype}, but the capture's dtype is {dtype}"
    if weights.size == 0 or header.engine.get("fault"):  # an injected fault may cause the following
        return
    exact = weights.astype(np.float32)
    if not np.isfinite(exact).all() or (exact < 0).any():
        yield "weights are negative, infinite or NaN"
        return
    hidden = np.arange(num_keys)[None, :] + rows.key_start > np.arange(num_queries)[:, None] + first  # [R, C]
    if (exact * hidden).any():
        yield "a query gives weight to a key at a later position"
    sums = exact.sum(axis=-1)  # [H, R]
    slack = FINE_SLACK if dtype == header.model.dtype == "float32" else COARSE_SLACK
    if (sums > 1 + slack).any() or (not has_sinks and (sums < 1 - slack).any()):
        worst = float(sums.ravel()[np.abs(sums - 1).argmax()])
        yield f"a row of weights sums to {worst:.4f}"
