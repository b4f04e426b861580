"""The attention function that transformers calls in every layer, and the context of the step it belongs to.

Registered as "kv_paged" with transformers' `AttentionInterface`. A step's `StepContext` is handed to the model as an
extra keyword argument and arrives here unchanged; nothing global is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from engine.cache.kv_store import KVStore
from engine.model.attention_backend import AttentionBackend, AttentionCall, AttentionOutput
from engine.model.batch import StepBatch

ATTENTION_NAME = "kv_paged"
CONTEXT_KEYWORD = "kv_paged_step"


class Recorder(Protocol):
    """Keeps what a layer computed."""

    def record(self, layer: int, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> None:
        """q [T, Hq, D], k [T, Hkv, D], v [T, Hkv, Dv] of the packed tokens; none is written to afterwards."""


class Context(Protocol):
    """What a layer's attention is handed to."""

    def attend(self, call: AttentionCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q [T, Hq, D], k [T, Hkv, D], v [T, Hkv, Dv] -> [T, Hq, Dv], contiguous."""


@dataclass(slots=True)
class StepContext:
    """One step: write the new keys and values, attend over the store, let the recorder look."""

    batch: StepBatch
    store: KVStore
    backend: AttentionBackend
    recorder: Recorder | None = None
    layers_called: int = 0

    def attend(self, call: AttentionCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.layers_called += 1
        slot_mapping = self.batch.slot_mapping(self.batch.reach(call.layer, call.sliding_window))
        self.store.write(call.layer, slot_mapping, k, v)
        attended = self.backend.forward(call, q, self.store, self.batch, self.recorder is not None)
        if self.recorder is not None:
            if self.store.is_lossy:  # what is shown is what the cache holds
                k, v = self.store.gather(call.layer, slot_mapping)
            self.recorder.record(call.layer, q, k, v, attended)
        return attended.out


@dataclass(slots=True)
class ProbeContext:
    """Attends to nothing and notes what each layer asked for: (call, q shape, k shape, v shape), in call order."""

    calls: list[tuple[AttentionCall, torch.Size, torch.Size, torch.Size]] = field(default_factory=list)

    def attend(self, call: AttentionCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.calls.append((call, q.shape, k.shape, v.shape))
        return q.new_zeros((q.shape[0], q.shape[1], v.shape[2]))


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
    """query [1, Hq, T, D], key [1, Hkv, T, D], value [1, Hkv, T, Dv] after RoPE -> [1, T, Hq, Dv], contiguous."""
    context: Context = kwargs[CONTEXT_KEYWORD]
    if scaling is None:
        scaling = query.shape[-1] ** -0.5
    call = AttentionCall(int(module.layer_idx), scaling, sliding_window, softcap, s_aux)  # type: ignore[arg-type]
    q, k, v = query[0].transpose(0, 1), key[0].transpose(0, 1), value[0].transpose(0, 1)
    return context.attend(call, q, k, v)[None], None


def register() -> None:
    """Make "kv_paged" known to transformers; doing it again changes nothing.

    No mask function is registered beside it: transformers then makes none at all, which is what is wanted (the backend
    applies causality and windows itself, and a packed row of many sequences has no mask of that form).
    """
    AttentionInterface.register(ATTENTION_NAME, paged_attention)
