"""Small random models of every model type that transformers maps to a causal language model.

Settings of a family's default configuration that are listed in `SMALL` get the values there. `SPECIAL` has further
settings of families that would not work otherwise.
"""

import math
from typing import Any

import pytest
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

VOCAB_SIZE = 128
TYPES: list[str] = list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WINDOW = 5  # smaller than the sequences of the tests
SMALL: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), VOCAB_SIZE),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "embedding_size", "word_embed_proj_dim", "emb_dim"), 32),
    **dict.fromkeys(
        ("intermediate_size", "d_ff", "dff", "n_inner", "ffn_dim", "ffn_hidden_size", "ffn_embed_dim",
         "decoder_ffn_dim", "encoder_ffn_dim", "intermediate_size_mlp"), 48,
    ),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "decoder_layers"), 3),
    "encoder_layers": 2,
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
         "encoder_attention_heads", "attention_heads"), 4,
    ),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "num_global_key_value_heads"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "v_head_dim", "global_head_dim", "qk_nope_head_dim", "attention_dim"), 8),
    **dict.fromkeys(("qk_rope_head_dim", "rotary_dim"), 4),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_target_positions"), 256),
    "max_source_positions": 64,
    "type_vocab_size": 2,
    "sliding_window": WINDOW,
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk"), 2),
    **dict.fromkeys(
        ("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size",
         "moe_shared_expert_intermediate_size", "kv_lora_rank", "q_lora_rank"), 16,
    ),
    **dict.fromkeys(("n_shared_experts", "moe_num_shared_experts", "n_group", "topk_group"), 1),
    "first_k_dense_replace": 1,
    "index_n_heads": 2,
    "index_head_dim": 8,
    "index_topk": 4,
    "hidden_size_per_layer_input": 8,
    "mamba_d_state": 8,
    "decoder_start_token_id": 1,
    **IDS,
}  # fmt: skip
MAY_BE_UNSET = {"num_key_value_heads", "intermediate_size", "n_inner", "sliding_window", "head_dim", *IDS}
# The cache has a key and a value per head, decompressed from the latent.
LATENT: dict[str, Any] = {"num_key_value_heads": 4, "head_dim": None}
FULL: dict[str, Any] = {"layer_types": ["full_attention"] * 3}
_GEMMA_3N = {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_kv_shared_layers": 0,
    "intermediate_size": 48,
    "activation_sparsity_pattern": [0.0] * 4,
}
SPECIAL: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        ("axk1", "axk2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "minicpm3", "youtu"), LATENT
    ),
    "cohere_compass_text": {
        "head_dim": 128,  # RoPE rotates 44 pairs by height and width, and 20 by time
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("sliding_attention", "full_attention")
        },
    },
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0}},
    "deepseek_v2": {**LATENT, "num_experts_per_tok": 2, "head_dim": 4, "n_group": None, "topk_group": None},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "gemma3n_text": _GEMMA_3N,
    "lfm2_moe": FULL,
    "longcat_flash": {**LATENT, "head_dim": 4, "num_hidden_layers": None, "num_layers": 2, "zero_expert_num": 2},
    "xmod": {"default_language": "en_XX"},
    **{
        kind: {
            "num_hidden_layers": 5,
            "layers_block_type": ["linear_attention", "linear_attention", "hybrid", "linear_attention", "hybrid"],
            "n_mamba_heads": 2,
            **more,
        }
        for kind, more in {"zamba": {}, "zamba2": {"mamba_ngroups": 1, "num_mem_blocks": 1}}.items()
    },
    "zaya": {"num_experts_per_tok": 1},
}


def causal_config(model_type: str, **settings: Any) -> Any:
    """Return a small configuration of a type; `settings` override it. Skips the test if transformers lacks the type."""
    if model_type not in CONFIG_MAPPING:
        pytest.skip(f"transformers {transformers.__version__} has no {model_type}")
    kind = CONFIG_MAPPING[model_type]
    default = kind()
    more = {**SPECIAL.get(model_type, {}), **settings}
    parts = {name: part for name in kind.sub_configs or {} if (part := getattr(default, name, None)) is not None}
    inner = {
        name: {**_small(part, SPECIAL.get(part.model_type, {}) | settings), "model_type": part.model_type}
        for name, part in parts.items()
        if name not in more
    }
    if default.get_text_config() is default:
        return kind(**_small(default, more), **inner)
    return kind(**{name: value for name, value in IDS.items() if hasattr(default, name)}, **inner)


def causal_model(config: Any, seed: int = 0) -> Any:
    """Return a random model in evaluation mode.

    Weights are larger than transformers' initial ones, so that attention is not uniform and errors are visible.

    Raises:
        ValueError: the model would have over 20 million parameters.
    """
    with torch.device("meta"):
        size = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    if size > 2 * 10**7:
        raise ValueError(f"{config.model_type} has {size} parameters")
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            if parameter.dim() > 1:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(noise * (1.2 / math.sqrt(parameter.shape[-1])))
    return model


def _small(default: Any, more: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in SMALL.items():
        try:
            present = getattr(default, name)
        except AttributeError:
            continue
        except Exception:  # some configurations raise if a setting differs between layers
            present = value
        plain = not isinstance(present, (list, tuple, dict)) and (present is not None or name in MAY_BE_UNSET)
        if plain and name not in more:
            found[name] = value
    return {**found, **{name: value for name, value in more.items() if value is not None}}
