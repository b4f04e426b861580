"""Descriptions of the cache of a model's layers, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from engine.trace.records import ModelFacts


def cache_by_layer(facts: ModelFacts, kv_bytes_per_token: int) -> str:
    """Return the number of layers by what they cache, with bytes per token and per state."""
    kinds = Counter(facts.layer_kinds)
    content = f"latents of {facts.latent_dim} numbers" if facts.latent_dim else "keys and values"
    parts = [f"{_layers(facts.num_layers, 'keep')} {content}, {kv_bytes_per_token:,} bytes a token"]
    if facts.latent_dim:
        as_heads = facts.num_kv_heads * (facts.head_dim + facts.v_head_dim)
        expanded = kv_bytes_per_token * as_heads // facts.latent_dim
        parts.append(f"the keys and values, which are computed from them on each read, would be {expanded:,}")
    windows = Counter(window for window in facts.sliding_windows if window is not None)
    parts += [f"{count} of them only those of the last {window:,} tokens" for window, count in sorted(windows.items())]
    if facts.state_bytes:
        with_state = kinds["state"] + kinds["both"]
        parts.append(f"{_layers(with_state, 'keep')} a state of constant size, {facts.state_bytes:,} bytes a sequence")
    if kinds["nothing"]:
        parts.append(f"{_layers(kinds['nothing'], 'keep')} nothing")
    return "; ".join(parts)


def not_served(facts: ModelFacts, dropped: Sequence[str]) -> str:
    """Return which parts of the model are neither served nor shown, or "". `dropped`: parts that text does not use."""
    parts = [f"only text is served; {' and '.join(dropped)} are dropped"] if dropped else []
    parts += ["the page shows blocks of states without their numbers"] if facts.state_bytes else []
    return "; ".join(parts)


def _layers(count: int, verb: str) -> str:
    return f"{count} layers {verb}" if count > 1 else f"1 layer {verb}s"
