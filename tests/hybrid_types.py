"""Small random models of types with state-space or linear-attention layers, alone or beside attention layers."""

from typing import Any

from tests.causal_types import causal_config, causal_model

LINEAR, FULL, CONV = "linear_attention", "full_attention", "conv"


def _layers(*kinds: str) -> dict[str, Any]:
    return {"layer_types": list(kinds), "num_hidden_layers": len(kinds)}


_DELTA_NET = {
    **_layers(LINEAR, LINEAR, FULL, LINEAR, FULL),
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_CONVOLUTION = _layers(CONV, FULL, CONV, CONV, FULL)
_MAMBA_2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 2,
    "mamba_d_state": 8,
    "mamba_expand": 2,
    "mamba_chunk_size": 16,
}
_LATENT = {**_layers(LINEAR, LINEAR, FULL, LINEAR), "num_key_value_heads": 4}
SERVED: dict[str, dict[str, Any]] = {
    "bailing_hybrid": _LATENT,
    "bamba": {"num_hidden_layers": 4, "attn_layer_indices": [2], **_MAMBA_2},
    "falcon_h1": {"num_hidden_layers": 3, "mamba_d_ssm": 64, **_MAMBA_2},
    "granitemoehybrid": {**_layers(LINEAR, LINEAR, FULL, LINEAR), **_MAMBA_2},
    "jamba": {"num_hidden_layers": 4, "attn_layer_period": 4, "attn_layer_offset": 2, "mamba_dt_rank": 4},
    "kimi_linear": {**_LATENT, "head_dim": 12, "linear_num_heads": 4, "linear_head_dim": 8},
    "lfm2": _CONVOLUTION,
    "lfm2_moe": _CONVOLUTION,
    "lfm3": _CONVOLUTION,
    "olmo_hybrid": {**_DELTA_NET, "linear_num_key_heads": 4},
    "qwen3_5": _DELTA_NET,
    "qwen3_5_moe": _DELTA_NET,
    "qwen3_5_text": _DELTA_NET,
    "qwen3_next": _DELTA_NET,
    "zaya": {},
}
# type -> settings, and pattern of the refusal
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "falcon_mamba": ({}, "has only layers with states"),
    "inkling_text": ({}, "passes position_bias"),
    "inkling2_text": ({}, "passes position_bias"),
    "mamba": ({}, "has only layers with states"),
    "mamba2": ({"num_heads": 8, "head_dim": 8, "n_groups": 2, "state_size": 8}, "has only layers with states"),
    # it bounds the time step only in steps of several tokens
    "nemotron_h": (
        {"mamba_num_heads": 8, "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 8, "chunk_size": 16},
        "its logits differ by|outside the cache that it receives",  # from transformers 5.21 on, and before
    ),
    "recurrent_gemma": ({}, "outside the cache that it receives|1 of its 3 layers use the attention interface"),
    "zamba": ({}, "shares an attention module among several layers"),
    "zamba2": ({}, "shares an attention module among several layers"),
}


def hybrid_model(model_type: str, seed: int = 0, **settings: Any) -> Any:
    """Return a small random model of a type in `SERVED` or `REFUSED`, in evaluation mode."""
    own = SERVED[model_type] if model_type in SERVED else REFUSED[model_type][0]
    return causal_model(causal_config(model_type, **{**own, **settings}), seed)
