"""Model with as many layers and heads as production models, and the outputs and attention of the bundled model.

Layers and heads are copies of the bundled model's. The first copy computes the output. Further copies only attend:
their contribution is zero, and their queries are scaled or slightly perturbed, so that no two patterns are the same.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, MistralConfig, MistralForCausalLM

from engine.model.shipped import SHIPPED

KEPT = {
    "vocab_size", "hidden_size", "intermediate_size", "head_dim", "hidden_act", "rms_norm_eps", "rope_parameters",
    "tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id", "attention_dropout",
}  # fmt: skip


def write_model(
    folder: Path, *, layers: int = 36, heads: int = 32, kv_heads: int = 8, max_position: int = 8192, seed: int = 0
) -> Path:
    """Write the model and the bundled model's tokenizer into `folder`.

    It samples the bundled model's tokens if it has at least as many KV heads, and query heads per KV head.
    """
    bundled = SHIPPED["bundled"].folder
    source: Any = LlamaForCausalLM.from_pretrained(bundled, dtype=torch.float32)
    small = source.config
    config = MistralConfig(  # its number of heads need not divide the hidden size
        **{
            **{name: value for name, value in small.to_dict().items() if name in KEPT},
            "sliding_window": None,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "max_position_embeddings": max_position,
        }
    )
    torch.manual_seed(seed)
    model: Any = MistralForCausalLM(config).eval()
    group, of = heads // kv_heads, small.num_attention_heads // small.num_key_value_heads
    origin = [
        (kv % small.num_key_value_heads) * of + (place + kv // small.num_key_value_heads * group) % of
        for kv in range(kv_heads)
        for place in range(group)
    ]  # for each head: the head of the bundled model to copy
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(source.model.embed_tokens.weight)
        model.model.norm.weight.copy_(source.model.norm.weight)
        for number, layer in enumerate(model.model.layers):
            first = number * small.num_hidden_layers // layers
            last_copy = (number + 1) * small.num_hidden_layers // layers != first or number == layers - 1
            _copy_layer(layer, source.model.layers[first], origin, kv_heads, small.head_dim, adds=last_copy)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(bundled / name, folder / name)
    return folder


def _copy_layer(layer: Any, source: Any, origin: list[int], kv_heads: int, dim: int, *, adds: bool) -> None:
    """Copy a layer. `adds`: add its output to the residual stream; else it only attends."""
    for name, parameter in layer.named_parameters():
        whole = source.get_parameter(name)
        if parameter.shape == whole.shape:
            parameter.copy_(whole)
    own, theirs = layer.self_attn, source.self_attn
    seen: set[int] = set()
    shaken, taken = [], []
    for head in origin:
        queries = _head(theirs.q_proj.weight, head, dim)
        is_first = adds and head not in seen
        if not is_first:
            scale = 0.4 + 1.2 * torch.rand(1)
            queries = queries * scale + torch.randn_like(queries) * queries.std() * 0.5 * torch.rand(1)
        shaken.append(queries)
        columns = theirs.o_proj.weight[:, head * dim : (head + 1) * dim]
        taken.append(columns if is_first else torch.zeros_like(columns))
        seen.add(head)
    own.q_proj.weight.copy_(torch.cat(shaken))
    own.o_proj.weight.copy_(torch.cat(taken, dim=1))
    num_kv = theirs.k_proj.weight.shape[0] // dim
    for name in ("k_proj", "v_proj"):
        weight = getattr(theirs, name).weight
        getattr(own, name).weight.copy_(torch.cat([_head(weight, kv % num_kv, dim) for kv in range(kv_heads)]))
    if not adds:
        layer.mlp.down_proj.weight.zero_()


def _head(weight: Tensor, head: int, dim: int) -> Tensor:
    return weight[head * dim : (head + 1) * dim]
