"""A forward pass as machine code, and the one operation in it that is not: attention, which is handed to the step.

`compiled` says how it is made. Serving needs only this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.model.attention import current
from engine.model.attention_backend import AttentionBackend, AttentionCall
from engine.model.batch import StepBatch

torch.library.define(
    "kvtheater::attend",
    "(Tensor q, Tensor k, Tensor v, int layer, float scaling, int? window, float? softcap, Tensor? sinks) -> Tensor",
)


@torch.library.impl("kvtheater::attend", ("CPU", "CUDA"))
def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layer: int,
    scaling: float,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    context = current()
    if (
        context.recorder is not None and context.recorder.keeps
    ):  # compiled code writes other numbers over these as soon as it can
        q, k, v = q.clone(), k.clone(), v.clone()
    out: Tensor = context.attend(AttentionCall(layer, scaling, window, softcap, sinks), q, k, v)
    return out


@torch.library.register_fake("kvtheater::attend")  # type: ignore[untyped-decorator]
def _attend_shape(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return q.new_empty((q.shape[0], q.shape[1], v.shape[2]))


@dataclass(frozen=True, slots=True)
class CompiledForward:
    """What `ModelRunner.forward` does, as machine code. Engines on several threads may share it."""

    one: Callable[[Tensor, Tensor], list[Tensor]]
    many: Callable[[Tensor, Tensor, Tensor], list[Tensor]]
    backend: AttentionBackend | None  # attention in C; None: that of the eager path (no C compiler, or on a GPU)

    def __call__(self, batch: StepBatch) -> Tensor:
        """Logits [S, V] float32 where a slice samples; under `torch.inference_mode` and `attending`."""
        keep = batch.logit_indices
        if batch.num_tokens == 1:
            logits = self.one(batch.input_ids, batch.position_ids)[0]
            return logits if keep is None else logits[keep]
        if keep is None:
            keep = torch.arange(batch.num_tokens, device=batch.input_ids.device)
        count = keep.shape[0]
        if count < 2:  # a graph for any number from 2 on; the rows added are dropped
            keep = torch.cat([keep, keep.new_zeros(2 - count)])
        return self.many(batch.input_ids, batch.position_ids, keep)[0][:count]
