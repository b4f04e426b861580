"""Wrapper of a transformers model's attention function that shows every call and passes it on unchanged."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.attention_backend import AttentionCall
from engine.model.light_transformers import AttentionInterface, AttentionMaskInterface

WATCHED = ("sdpa", "eager")  # implementations whose mask and softmax are known
_NAME = "kv_watched_{}"

Look = Callable[[AttentionCall, Tensor, Tensor, Tensor, Tensor | None], None]
_looking: dict[nn.Module, Look] = {}  # by attention module, so that it is valid on every thread and for one model


@contextmanager
def attention_watched(model: Any, look: Look) -> Iterator[None]:
    """Within the context, call `look(call, query, key, value, mask)` for every attention call of `model`.

    query [B, Hq, T, D], key [B, Hkv, S, D] and value [B, Hkv, S, Dv] including cached ones, after RoPE; mask as the
    model made it: None (causal), or broadcastable to [B, Hq, T, S], bool (True = visible) or additive.
    """
    implementation = model.config.get_text_config()._attn_implementation
    name = _NAME.format(implementation)
    AttentionInterface.register(name, _watching(implementation))
    AttentionMaskInterface.register(name, AttentionMaskInterface()[implementation])
    model.set_attn_implementation(name)
    layers = [module for module in model.modules() if hasattr(module, "layer_idx")]
    _looking.update(dict.fromkeys(layers, look))
    try:
        yield
    finally:
        for layer in layers:
            _looking.pop(layer, None)
        model.set_attn_implementation(implementation)


def _watching(implementation: str) -> Callable[..., tuple[Tensor, Tensor | None]]:
    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        out: tuple[Tensor, Tensor | None] = _function(implementation, module)(
            module, query, key, value, attention_mask, **kwargs
        )
        look = _looking.get(module)
        if look is not None:
            scaling = kwargs.get("scaling") or query.shape[-1] ** -0.5
            window, softcap, sinks = (kwargs.get(name) for name in ("sliding_window", "softcap", "s_aux"))
            layer: int = module.layer_idx  # type: ignore[assignment]
            look(AttentionCall(layer, scaling, window, softcap, sinks), query, key, value, attention_mask)
        return out

    return attend


def _function(implementation: str, module: nn.Module) -> Callable[..., Any]:
    """Return the attention function that the model would have called; the eager one is in the model's own module."""
    if implementation == "eager":
        return sys.modules[type(module).__module__].eager_attention_forward  # type: ignore[no-any-return]
    return AttentionInterface()[implementation]  # type: ignore[no-any-return]


def softmax_weights(call: AttentionCall, query: Tensor, key: Tensor, mask: Tensor | None, num_before: int) -> Tensor:
    """Return the weights of one sequence by the formula, float32: query [Hq, T, D], key [Hkv, S, D], mask [1 or Hq, T,
    S].

    `num_before`: keys before the first query's own. Without a mask attention is causal. Masked entries are 0.
    """
    group = query.shape[0] // key.shape[0]
    scores = query.float() @ key.float().repeat_interleave(group, 0).transpose(1, 2) * call.scaling  # [Hq, T, S]
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    rows, columns = torch.arange(query.shape[1])[:, None] + num_before, torch.arange(key.shape[1])[None]
    seen = (columns <= rows).to(scores.device)
    if mask is not None:
        seen = seen & (mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2)
        if mask.dtype != torch.bool:
            scores = scores + mask.float()
    scores = scores.masked_fill(~seen, -torch.inf)
    if call.sinks is not None:
        sinks = call.sinks.float().reshape(-1, 1, 1).expand(-1, scores.shape[1], 1)
        return torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)[..., :-1]
    return torch.softmax(scores, dim=-1)
