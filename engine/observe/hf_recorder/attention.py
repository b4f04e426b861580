"""Wrapper of a transformers model's attention function that reports each call to a callback."""

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

OnCall = Callable[[AttentionCall, Tensor, Tensor, Tensor, Tensor | None], None]
_callbacks: dict[nn.Module, OnCall] = {}  # by attention module


@contextmanager
def attention_watched(model: Any, on_call: OnCall) -> Iterator[None]:
    """Within the context, call `on_call(call, query, key, value, mask)` for every attention call of `model`.

    query [B, Hq, T, D]; key [B, Hkv, S, D] and value [B, Hkv, S, Dv] include cached tokens; all after RoPE. mask: None
    (causal), or broadcastable to [B, Hq, T, S], bool (True = visible) or additive.
    """
    implementation = model.config.get_text_config()._attn_implementation
    name = _NAME.format(implementation)
    AttentionInterface.register(name, _wrapped(implementation))
    AttentionMaskInterface.register(name, AttentionMaskInterface()[implementation])
    model.set_attn_implementation(name)
    layers = [module for module in model.modules() if hasattr(module, "layer_idx")]
    _callbacks.update(dict.fromkeys(layers, on_call))
    try:
        yield
    finally:
        for layer in layers:
            _callbacks.pop(layer, None)
        model.set_attn_implementation(implementation)


def _wrapped(implementation: str) -> Callable[..., tuple[Tensor, Tensor | None]]:
    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        out: tuple[Tensor, Tensor | None] = _function(implementation, module)(
            module, query, key, value, attention_mask, **kwargs
        )
        on_call = _callbacks.get(module)
        if on_call is not None:
            scaling = kwargs.get("scaling") or query.shape[-1] ** -0.5
            window, softcap, sinks = (kwargs.get(name) for name in ("sliding_window", "softcap", "s_aux"))
            layer: int = module.layer_idx  # type: ignore[assignment]
            on_call(AttentionCall(layer, scaling, window, softcap, sinks), query, key, value, attention_mask)
        return out

    return attend


def _function(implementation: str, module: nn.Module) -> Callable[..., Any]:
    """Return the attention function that is wrapped. The eager one is in the model's module."""
    if implementation == "eager":
        return sys.modules[type(module).__module__].eager_attention_forward  # type: ignore[no-any-return]
    return AttentionInterface()[implementation]  # type: ignore[no-any-return]


def softmax_weights(call: AttentionCall, query: Tensor, key: Tensor, mask: Tensor | None, num_before: int) -> Tensor:
    """Compute the float32 attention weights [Hq, T, S] of one sequence.

    query [Hq, T, D], key [Hkv, S, D], mask [1 or Hq, T, S]; None: causal. `num_before`: number of keys before that of
    the first query. Masked entries are 0.
    """
    group = query.shape[0] // key.shape[0]
    scores = query.float() @ key.float().repeat_interleave(group, 0).transpose(1, 2) * call.scaling  # [Hq, T, S]
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    rows, columns = torch.arange(query.shape[1])[:, None] + num_before, torch.arange(key.shape[1])[None]
    visible = (columns <= rows).to(scores.device)
    if mask is not None:
        visible = visible & (mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2)
        if mask.dtype != torch.bool:
            scores = scores + mask.float()
    scores = scores.masked_fill(~visible, -torch.inf)
    if call.sinks is not None:
        sinks = call.sinks.float().reshape(-1, 1, 1).expand(-1, scores.shape[1], 1)
        return torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)[..., :-1]
    return torch.softmax(scores, dim=-1)
