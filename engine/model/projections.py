"""Projection of one head: the rows of W_Q, W_K or W_V that map attention's input to the head's query, key or value.

Most models use the same names for the three modules; some have one module that outputs all queries, then all keys, then
all values. The matrix is computed as the module's product with the identity, in whatever form its weights are stored.
"""

from __future__ import annotations

import torch
from torch import nn

from engine.model.decoder_layers import decoder_layers
from engine.model.loaded import LoadedModel
from engine.options.refusal import Refused, sentence
from engine.trace.residual import Projection, ProjectionPart

SEPARATE = {"q": ("q_proj", "query", "q_lin"), "k": ("k_proj", "key", "k_lin"), "v": ("v_proj", "value", "v_lin")}
JOINED = ("qkv_proj", "c_attn")  # one module for queries, keys and values
MAX_NUMBERS = 1 << 25  # maximum size of the product with the identity: 128 MiB in float32


class ProjectionError(Refused):
    """The model has no such matrix, or it is too large; the message is one sentence."""


def projection_of(model: LoadedModel, layer: int, part: ProjectionPart, head: int) -> Projection:
    """Return W [D, n] and the bias [D] of a head (a KV head for keys and values) of one layer, float32.

    W · x + bias is the head's query, key or value for attention's input x [n], before any norm and before RoPE.

    Raises:
        ProjectionError: the layer has no such matrix, or it is too large.
    """
    num_kv_heads, head_dim, v_head_dim = model.facts.kv_shape(layer)
    sizes = {"q": model.facts.num_heads * head_dim, "k": num_kv_heads * head_dim, "v": num_kv_heads * v_head_dim}
    size, width = v_head_dim if part == "v" else head_dim, model.facts.hidden_size
    if width * max(sum(sizes.values()), width) > MAX_NUMBERS:
        raise ProjectionError(sentence("projection.large", reads=width))
    kinds = model.facts.layer_kinds
    index = [i for i, kind in enumerate(kinds) if kind in ("keys", "both")][layer] if kinds else layer
    modules = decoder_layers(model.module)[index].modules()
    candidates = [(name, 0, sizes[part]) for name in SEPARATE[part]]  # name, offset of the part, number of outputs
    offset = sum(sizes[other] for other in "qkv"[: "qkv".index(part)])
    candidates += [(name, offset, sum(sizes.values())) for name in JOINED]
    named = [(getattr(one, name, None), offset, count) for one in modules for name, offset, count in candidates]
    with torch.inference_mode():
        basis = torch.eye(width + 1, width, dtype=model.dtype, device=model.device)  # the last row is zero
        for module, offset, count in named:
            if not isinstance(module, nn.Module):
                continue
            outputs = module(basis)
            if outputs.shape[-1] == count:
                rows = outputs[:, offset + head * size : offset + (head + 1) * size].float().cpu()
                weight = (rows[:-1] - rows[-1]).T.contiguous()
                return Projection(weight=weight.numpy(), bias=rows[-1].numpy())
    raise ProjectionError(sentence("projection.none", layer=layer, part=part.upper()))
