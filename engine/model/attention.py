"""Attention function that transformers calls in every layer, and the context of the step it belongs to.

The function is registered as "kv_paged" with transformers' `AttentionInterface`. It reads the context of its step from
a thread-local (`attending`), because not every model family passes on unknown keywords.

Unsupported attention features (a mask, queries that see later keys, an unknown keyword) are refused, because they would
otherwise be ignored silently.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from engine.cache.kv_store import KVStore
from engine.model.ablation import Rows, without_heads
from engine.model.attention_backend import AttentionBackend, AttentionCall, AttentionOutput
from engine.model.batch import StepBatch
from engine.model.errors import ModelError
from engine.model.light_transformers import AttentionInterface
from engine.options.refusal import joined, sentence

ATTENTION_NAME = "kv_paged"
# Attribute of an attention module: its index among the layers with keys, in models where other layers have a state.
NUMBER_AMONG_KEYS = "kv_layer"
# Keywords that model families pass and that have no effect here: the keys are already rotated by position, and an
# attention layer decides neither which logits are computed nor which keys are cached.
HARMLESS = frozenset({"position_ids", "logits_to_keep", "use_cache"})

_step = threading.local()  # .context: the context of the step that this thread runs


class AttentionRefused(ModelError):
    """The model uses attention that a paged KV cache does not support. The message is the second half of a sentence."""


class Recorder(Protocol):
    """Receiver of the arrays that each layer computes."""

    keeps: bool  # whether it reads the arrays after `record` returns, so that they must not be overwritten

    def record(self, layer: int, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> None:
        """Record a layer: q [T, Hq, D], k [T, Hkv, D], v [T, Hkv, Dv] of the packed tokens."""

    def wants(self, layer: int) -> bool:
        """Return whether to record this layer, including its attention weights."""

    def addresses(self) -> int | None:
        """Return the address of the table from which C code writes each layer instead of `record`
        (`EncodedCapture.addresses`), or None if C writes no layer.
        """


class Context(Protocol):
    """Computes the attention of each layer in a forward pass."""

    @property
    def recorder(self) -> Recorder | None:
        """Recorder of each layer's arrays, or None."""

    def attend(self, call: AttentionCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute attention: q [T, Hq, D], k [T, Hkv, D], v [T, Hkv, Dv] -> [T, Hq, Dv], contiguous."""


@dataclass(slots=True)
class StepContext:
    """Context of a step: writes the new keys and values, attends over the store, passes arrays to the recorder."""

    batch: StepBatch
    store: KVStore
    backend: AttentionBackend
    recorder: Recorder | None = None
    layers_called: int = 0
    states: Any = None  # `state_layers.StateStep` of layers with a state instead of keys; None: there are none
    latent: Tensor | None = None  # [T, 1, W] of the next layer (`latents`); None: it caches keys and values
    off: Sequence[Rows] = ()  # token masks of heads and layers that are off (`ablation`)

    def attend(self, call: AttentionCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.layers_called += 1
        slot_mapping = self.batch.slot_mapping(self.batch.reach(call.layer, call.sliding_window))
        if self.latent is None:
            self.store.write(call.layer, slot_mapping, k, v)
        else:
            self.store.write(call.layer, slot_mapping, self.latent, self.latent[..., :0])
        recorder = self.recorder if self.recorder is not None and self.recorder.wants(call.layer) else None
        attended = self.backend.forward(call, q, self.store, self.batch, recorder is not None)
        if recorder is not None:
            if self.store.is_lossy:  # the recorder gets the rounded values that the cache holds
                k, v = self.store.gather(call.layer, slot_mapping)
            recorder.record(call.layer, q, k, v, attended)
        return without_heads(self.off, call.layer, attended.out) if self.off else attended.out


@dataclass(slots=True)
class ProbeContext:
    """Attends to nothing and records each layer's call: (call, q shape, k shape, v shape), in call order."""

    calls: list[tuple[AttentionCall, torch.Size, torch.Size, torch.Size]] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)  # the model's indices of the layers with keys, in order
    recorder: None = None
    on_layer: Callable[[int, tuple[Tensor, ...]], None] | None = None  # called with a layer's index and its q, k, v

    def attend(self, call: AttentionCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.calls.append((call, q.shape, k.shape, v.shape))
        if self.on_layer is not None:
            self.on_layer(call.layer, (q, k, v))
        return q.new_zeros((q.shape[0], q.shape[1], v.shape[2]))


@contextmanager
def attending(context: Context) -> Iterator[None]:
    """Inside the `with`, model calls of this thread use `context`."""
    before = getattr(_step, "context", None)
    _step.context = context
    try:
        yield
    finally:
        _step.context = before


def current() -> Context:
    """Return the context of the step that this thread runs."""
    context: Context = _step.context
    return context


def paged_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend: query [1, Hq, T, D], key [1, Hkv, T, D], value [1, Hkv, T, Dv] after RoPE -> [1, T, Hq, Dv], contiguous.

    Raises:
        AttentionRefused: the attention needs more than causality, a window, a softcap and sinks.
    """
    if attention_mask is not None:
        raise AttentionRefused(sentence("attention.mask"))
    if not kwargs.pop("is_causal", True) or not getattr(module, "is_causal", True):
        raise AttentionRefused(sentence("attention.later"))
    passed = (name for name, value in kwargs.items() if value is not None and value is not False)
    if unknown := [name for name in passed if name not in HARMLESS]:
        raise AttentionRefused(sentence("attention.keywords", names=joined(unknown)))
    context = current()
    layer: Any = module.__dict__.get(NUMBER_AMONG_KEYS, module.layer_idx)
    if layer is None or layer < 0:
        raise AttentionRefused(sentence("attention.shared"))
    if scaling is None:
        scaling = query.shape[-1] ** -0.5
    call = AttentionCall(int(layer), scaling, sliding_window, softcap, s_aux)
    q, k, v = query[0].transpose(0, 1), key[0].transpose(0, 1), value[0].transpose(0, 1)
    return context.attend(call, q, k, v)[None], None


def register() -> None:
    """Register "kv_paged" with transformers; idempotent.

    No mask function is registered, so transformers builds no mask. The backend applies causality and windows itself,
    and a packed row of many sequences has no mask of the usual form.
    """
    AttentionInterface.register(ATTENTION_NAME, paged_attention)
