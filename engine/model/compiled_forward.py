"""Compiled forward pass, and its opaque operation `kvtheater::attend`, which the context of the step computes.

`compiled` builds the forward pass. Serving needs only this module.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from engine.model.attention import current
from engine.model.attention_backend import AttentionBackend, AttentionCall
from engine.model.batch import StepBatch
from engine.model.native import StepKernel, native_kernels
from engine.model.native_step import ActiveStep, StepLayout

torch.library.define(
    "kvtheater::attend",
    "(Tensor q, Tensor k, Tensor v, int layer, float scaling, int? window, float? softcap, Tensor? sinks) -> Tensor",
)


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
    if context.recorder is not None and context.recorder.keeps:  # compiled code reuses the memory of q, k and v
        q, k, v = q.clone(), k.clone(), v.clone()
    out: Tensor = context.attend(AttentionCall(layer, scaling, window, softcap, sinks), q, k, v)
    return out


torch.library.impl("kvtheater::attend", ("CPU", "CUDA"), _attend)


@torch.library.register_fake("kvtheater::attend")  # type: ignore[untyped-decorator]
def _attend_shape(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return q.new_empty((q.shape[0], q.shape[1], v.shape[2]))


ATTEND = torch.ops.kvtheater.attend.default
# Its C shim, in kernels/attend.c
SHIM = (
    "AOTITorchError aoti_torch_cpu_attend(AtenTensorHandle q, AtenTensorHandle k, AtenTensorHandle v, int64_t layer, "
    "double scaling, int64_t* window, double* softcap, AtenTensorHandle* sinks, AtenTensorHandle* out)"
)
_raised = threading.local()  # .error: exception of the callback from C on this thread


@cache
def step_kernel() -> StepKernel | None:
    """Return attention for compiled code that does not need the interpreter; None without a C compiler."""
    kernels = native_kernels()
    if kernels is None:
        return None

    def tensor(handle: int) -> Tensor:
        found: Tensor = _tensor_of(_capsule(handle, None, None))
        return found

    def attend_in_python(
        q: int, k: int, v: int, layer: int, scaling: float,
        window: int | None, softcap: int | None, sinks: int | None, out: int,
    ) -> int:  # fmt: skip
        try:
            size = ctypes.cast(window, ctypes.POINTER(ctypes.c_int64))[0] if window else None
            cap = ctypes.cast(softcap, ctypes.POINTER(ctypes.c_double))[0] if softcap else None
            sink = tensor(ctypes.cast(sinks, ctypes.POINTER(ctypes.c_void_p))[0]) if sinks else None
            with torch.inference_mode():
                attended = _attend(tensor(q), tensor(k), tensor(v), layer, scaling, size, cap, sink)
            ctypes.cast(out, ctypes.POINTER(ctypes.c_void_p))[0] = _pointer(_handle_of(attended), None)
        except BaseException as error:  # an exception cannot propagate through C
            _raised.error = error
            return 1
        return 0

    kernels.step.set_fallback(attend_in_python)
    return kernels.step


# despite its name it steals nothing: the caller keeps the handle and its reference to the tensor (torch 2.13)
_tensor_of: Any = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr  # type: ignore[attr-defined]
_handle_of: Any = torch._C._aoti.unsafe_alloc_void_ptr_from_tensor  # type: ignore[attr-defined]
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.argtypes, _capsule.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p


@dataclass(frozen=True, slots=True, eq=False)  # hashed by identity, as part of a CUDA graph's key
class CompiledForward:
    """Compiled form of `ModelRunner.forward`. Engines on several threads may share it."""

    one: Callable[[Tensor, Tensor], list[Tensor]]
    many: Callable[[Tensor, Tensor, Tensor], list[Tensor]]
    backend: AttentionBackend | None  # attention in C; None: the eager path's (no C compiler, or on a GPU)
    kernel: StepKernel | None = None  # attention that the code calls; None: it calls Python
    early_weights: int = 0  # weights besides the head's that only rows of sampled tokens use (`early_rows`)
    refused: dict[str, str] = field(default_factory=dict)  # kinds of KV cache that it does not serve, with the reason

    def serves(self, kv_cache_dtype: str) -> bool:
        """Return whether its results with this kind of KV cache agree with the eager path's."""
        return kv_cache_dtype.removesuffix("_e4m3") not in self.refused

    def __call__(self, batch: StepBatch, layout: StepLayout | None = None) -> tuple[Tensor, int]:
        """Return logits [S, V] float32 of the slices that sample, and the number of layers whose attention C computed.
        The caller enters `torch.inference_mode` and `attending`. `layout` is the step's layout for C; None: Python
        computes attention in every layer.

        Raises:
            Exception: any exception that Python raised in a layer.
        """
        if self.kernel is None or layout is None:
            return self._logits(batch), 0
        with ActiveStep(self.kernel, layout) as step:
            logits = self._logits(batch)
        return logits, step.num_called

    def _logits(self, batch: StepBatch) -> Tensor:
        try:
            return self._run(batch)
        except RuntimeError:
            error = getattr(_raised, "error", None)
            if error is None:
                raise
            _raised.error = None
            raise error from None

    def _run(self, batch: StepBatch) -> Tensor:
        keep = batch.logit_indices
        if batch.num_tokens == 1:
            logits = self.one(batch.input_ids, batch.position_ids)[0]
            return logits if keep is None else logits[keep]
        if keep is None:
            keep = torch.arange(batch.num_tokens, device=batch.input_ids.device)
        count = keep.shape[0]
        if count < 2:  # the graph takes 2 or more; the added rows are dropped
            keep = torch.cat([keep, keep.new_zeros(2 - count)])
        return self.many(batch.input_ids, batch.position_ids, keep)[0][:count]
