"""Facts of models with known figures."""

from typing import Any

from engine.trace.records import ModelFacts


def facts(layers: int, hidden: int, heads: int, kv_heads: int | None = None, **settings: Any) -> ModelFacts:
    """Return a model with heads of width hidden / heads, and multi-head attention unless kv_heads is given."""
    defaults: dict[str, Any] = {
        "name": "model", "architecture": "M", "num_params": 0, "num_layers": layers, "hidden_size": hidden,
        "intermediate_size": 4 * hidden, "num_heads": heads, "num_kv_heads": kv_heads or heads,
        "head_dim": hidden // heads, "v_head_dim": hidden // heads, "vocab_size": 50_000, "max_position": 2048,
        "dtype": "float16", "sliding_windows": [None] * layers,
    }  # fmt: skip
    return ModelFacts(**{**defaults, **settings})
