"""Projection of one head: the rows of W_Q, W_K or W_V that map attention's input to its query, key or value.

Most models name the three modules alike; some have one module whose outputs are all queries, then all keys, then all
values. Whatever form a module's weights are stored in, its product with the identity is the matrix.
"""

from __future__ import annotations

import torch
from torch import nn

from engine.model.decoder_layers import decoder_layers
from engine.model.loaded import LoadedModel
from engine.options.refusal import Refused, sentence
from engine.trace.residual import Projection, ProjectionPart

APART = {"q": ("q_proj", "query", "q_lin"), "k": ("k_proj", "key", "k_lin"), "v": ("v_proj", "value", "v_lin")}
JOINED = ("qkv_proj", "c_attn")  # queries, keys and values one after the other
MAX_NUMBERS = 1 << 25  # of the product with the identity, formed at once: 128 MiB in float32


class ProjectionError(Refused):
    """The model has no such matrix, or it is too large; the message is one sentence."""


def projection_of(model: LoadedModel, layer: int, part: ProjectionPart, head: int) -> Projection:
    """Return W [D, n] and the bias [D] of a head (a KV head for keys and values) of one layer, float32.

    W · x + bias is the head's query, key or value of the n numbers x that attention reads, before a norm of it and
    before its position is rotated in.

    Raises:
        ProjectionError: the layer computes it in another way, or from too many numbers.
    """
    num_kv_heads, head_dim, v_head_dim = model.facts.kv_shape(layer)
    sizes = {"q": model.facts.num_heads * head_dim, "k": num_kv_heads * head_dim, "v": num_kv_heads * v_head_dim}
    size, reads = v_head_dim if part == "v" else head_dim, model.facts.hidden_size
    if reads * max(sum(sizes.values()), reads) > MAX_NUMBERS:
        raise ProjectionError(sentence("projection.large", reads=reads))
    kinds = model.facts.layer_kinds
    place = [i for i, kind in enumerate(kinds) if kind in ("keys", "both")][layer] if kinds else layer
    inside = decoder_layers(model.module)[place].modules()
    ways = [(name, 0, sizes[part]) for name in APART[part]]
    ways += [(name, sum(sizes[one] for one in "qkv"[: "qkv".index(part)]), sum(sizes.values())) for name in JOINED]
    named = [(getattr(one, name, None), before, count) for one in inside for name, before, count in ways]
    with torch.inference_mode():
        basis = torch.eye(reads + 1, reads, dtype=model.dtype, device=model.device)  # the last row is zero
        for module, before, count in named:
            if not isinstance(module, nn.Module):
                continue
            outputs = module(basis)
            if outputs.shape[-1] == count:
                rows = outputs[:, before + head * size : before + (head + 1) * size].float().cpu()
                weight = (rows[:-1] - rows[-1]).T.contiguous()
                return Projection(weight=weight.numpy(), bias=rows[-1].numpy())
    raise ProjectionError(sentence("projection.none", layer=layer, part=part.upper()))
