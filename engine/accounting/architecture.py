"""Cache memory of a model per sequence, from its configuration: layers and their shapes.

The configuration is a config.json as a mapping. Families have different names for the same field. The caller fills in
the defaults of the family first (`engine.setup.unloaded_model`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from engine.accounting.checkpoint import state_is_wide
from engine.accounting.impossible import impossible
from engine.accounting.kv_shape import Architecture, KvShape
from engine.accounting.recurrent_state import state_size

Config = Mapping[str, Any]

LAYERS = ("decoder_layers", "num_decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
WIDTH = ("hidden_size", "d_model", "n_embd", "dim")
HEAD_DIM = ("head_dim", "d_kv", "attention_head_dim", "kv_channels")
MLP = ("intermediate_size", "decoder_ffn_dim", "ffn_dim", "d_ff", "n_inner", "ffn_hidden_size")
EXPERT_MLP = ("moe_intermediate_size", "expert_ffn_hidden_size", *MLP)
CHOSEN = ("num_experts_per_tok", "moe_top_k", "moe_topk", "top_k_experts", "moe_k")
SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
POSITIONS = ("max_position_embeddings", "n_positions", "max_target_positions", "max_seq_len", "seq_length")
WINDOW = ("sliding_window", "window_size", "attention_window_size")
MAX_COUNT = 1 << 30  # largest valid count in a configuration
MAX_LAYERS = 1024  # more than four times the layers of any published model

FULL = {"full_attention", "attention", "global", "*"}
SLIDING = {"sliding_attention", "local", "swa"}
STATES = {"linear_attention", "mamba", "mamba2", "conv", "recurrent", "M"}
BOTH = {"hybrid"}  # layers with attention and a state in parallel
NEITHER = {"moe", "mlp", "-", "E"}  # layers without a cache
LETTERS = {"M": "mamba", "*": "full_attention", "-": "mlp", "E": "moe"}  # letters of Nemotron-H's pattern


def read_architecture(config: Config, name: str, num_params: int, num_active_params: int | None = None) -> Architecture:
    """Return the architecture of a configuration with a known number of parameters.

    Raises:
        ImpossibleInput: a required field is missing or is not a count, or the kind of a layer is unknown.
    """
    text = config.get("text_config")
    own: Config = text if isinstance(text, Mapping) else config
    experts = _count(own, CHOSEN, 0)
    width = _count(own, MLP, 4 * _count(own, WIDTH, 0))
    if experts:
        width = _count(own, EXPERT_MLP, width) * (experts + _count(own, SHARED, 0))
    latent = own.get("kv_lora_rank") and own.get("qk_rope_head_dim")
    heads = _count(own, HEADS, 0)
    return Architecture(
        name=name,
        shapes=kv_shapes(own),
        num_params=num_params,
        num_active_params=num_active_params,
        num_heads=heads,
        hidden_size=_count(own, WIDTH, 0),
        intermediate_size=width,
        vocab_size=_count(own, ("vocab_size",), 0),
        max_position=_count(own, POSITIONS, 0),
        tie_word_embeddings=bool(own.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        expanded_dim=heads * (_one(own, "qk_nope_head_dim") + _one(own, "qk_rope_head_dim") + _one(own, "v_head_dim"))
        if latent
        else 0,
    )


def kv_shapes(config: Config) -> tuple[KvShape, ...]:
    """Return groups of identical layers, in order of first occurrence.

    Raises:
        ImpossibleInput: as `read_architecture`.
    """
    found: Counter[KvShape] = Counter()
    kinds = layer_kinds(config)
    shared = _one(config, "num_kv_shared_layers", 0)  # the last layers reuse the cache of earlier ones
    for index, kind in enumerate(kinds):
        has_own = index < len(kinds) - shared
        if kind in FULL | BOTH | {"indexed_attention"} and has_own:
            found[_attention(config, False)] += 1
            if kind == "indexed_attention":
                found[KvShape(1, latent_dim=_required(config, ("index_head_dim",)), role="index")] += 1
        elif kind in SLIDING | {"chunked_attention"} and has_own:
            found[_attention(config, True)] += 1
        if kind in STATES | BOTH:
            found[_state(config, kind)] += 1
        if kind == "cross_attention" or config.get("is_encoder_decoder"):
            found[_cross(config)] += 1
        if kind not in FULL | SLIDING | STATES | BOTH | NEITHER | {
            "indexed_attention", "chunked_attention", "cross_attention",
        }:  # fmt: skip
            raise impossible("layer_kind", kind=str(kind)[:40])
    if not found:
        raise impossible("no_cache")
    return tuple(replace(one, num_layers=count) for one, count in found.items())


def layer_kinds(config: Config) -> list[str]:
    """Return the kind of each layer, by transformers' names (`layer_types`).

    Raises:
        ImpossibleInput: the number of layers is missing or out of range.
    """
    listed = config.get("layer_types") or config.get("layers_block_type") or config.get("attention_layers")
    if isinstance(config.get("hybrid_override_pattern"), str) and not listed:
        listed = [LETTERS.get(letter, letter) for letter in config["hybrid_override_pattern"]]
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        if not 1 <= len(listed) <= MAX_LAYERS:
            raise impossible("bad_field", field="layer_types", value=len(listed), most=MAX_LAYERS)
        return [str(one) for one in listed]
    layers = _required(config, LAYERS, MAX_LAYERS)
    if config.get("model_type") == "longcat_flash":  # each layer has two attention blocks
        layers *= 2
    kinds = ["sliding_attention" if _slides(config) else "full_attention"] * layers
    if isinstance(crossing := config.get("cross_attention_layers"), Sequence):
        kinds = ["cross_attention" if index in crossing else kind for index, kind in enumerate(kinds)]
    return kinds


def _slides(config: Config) -> bool:
    """Return whether all layers have a window, for a configuration without a list of layer kinds."""
    return bool(config.get("sliding_window")) and config.get("use_sliding_window", True) is not False


def _attention(config: Config, slides: bool) -> KvShape:
    """Return the shape of a self-attention layer. In some families, layers with a window have another shape."""
    chunk = ("attention_chunk_size",)  # at most one chunk is cached, so it counts as a window
    window = _required(config, chunk if config.get(chunk[0]) else WINDOW) if slides else 0
    rank, rotated = config.get("kv_lora_rank"), config.get("qk_rope_head_dim")
    if rank and rotated:
        return KvShape(1, latent_dim=_one(config, "kv_lora_rank") + _one(config, "qk_rope_head_dim"), window=window)
    heads, width = _kv_heads(config), _head_dim(config)
    values = _one(config, "v_head_dim", width)
    if slides:
        heads = _one(config, "swa_num_key_value_heads", heads)
        width, values = _one(config, "swa_head_dim", width), _one(config, "swa_v_head_dim", values)
    else:
        heads = _one(config, "num_global_key_value_heads", heads)
        if config.get("global_head_dim"):
            width = values = _one(config, "global_head_dim")
    return KvShape(1, heads, width, values, window=window)


def _state(config: Config, kind: str) -> KvShape:
    size = state_size(config, kind)
    return KvShape(1, state=size.inputs + size.state, wide_state=size.state if state_is_wide(config) else 0)


def _cross(config: Config) -> KvShape:
    heads, width = _kv_heads(config), _head_dim(config)
    return KvShape(1, heads, width, width, role="cross")


def _kv_heads(config: Config) -> int:
    heads = _required(config, HEADS)
    attention = config.get("attn_config")
    if isinstance(attention, Mapping) and attention.get("kv_n_heads"):
        return _one(attention, "kv_n_heads")
    if config.get("model_type") == "falcon" and not config.get("new_decoder_architecture"):
        return 1 if config.get("multi_query", True) else heads
    if config.get("multi_query") is True and config.get("model_type") != "falcon":
        return 1
    return _count(config, KV_HEADS, heads)


def _head_dim(config: Config) -> int:
    found = _count(config, HEAD_DIM, 0)
    return found or max(1, _required(config, WIDTH) // _required(config, HEADS))


def _required(config: Config, names: Sequence[str], most: int = MAX_COUNT) -> int:
    found = _count(config, names, 0, most)
    if not found:
        raise impossible("no_field", field=names[0])
    return found


def _one(config: Config, name: str, default: int | None = None) -> int:
    return _required(config, (name,)) if default is None else _count(config, (name,), default)


def _count(config: Config, names: Sequence[str], default: int, most: int = MAX_COUNT) -> int:
    """Return the first of these fields that is present, or its first element if it is a list."""
    for name in names:
        value = config.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None or value == 0:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise impossible("bad_field", field=name, value=str(value)[:40], most=most)
        return value
    return default
