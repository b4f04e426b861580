"""Capturing a step in which every sequence has one new token: each layer's arrays go straight into the log's bytes."""

from __future__ import annotations

import ctypes
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.model.attention_backend import DecodeWeights
from engine.model.batch import StepBatch
from engine.model.native import CaptureKernel
from engine.trace.encoded import DecodedRow, EncodedLayer, Layout


class _Form(NamedTuple):
    """What layers that are alike share."""

    layout: Layout
    numbers: np.ndarray[Any, Any]  # int64, as capture.c says
    address: int  # of the numbers


class DecodeCapture:
    """One step's layers."""

    def __init__(self, kernel: CaptureKernel, batch: StepBatch, dtype: Literal["float16", "float32"]) -> None:
        self._store, self._batch, self._dtype = kernel.store_decode, batch, dtype
        self._forms: dict[tuple[Any, ...], _Form] = {}

    def layer(self, number: int, q: Tensor, k: Tensor, v: Tensor, decode: DecodeWeights) -> tuple[EncodedLayer, int]:
        """Of q [n, Hq, D], k [n, Hkv, D], v [n, Hkv, Dv], which are not read afterwards: the layer, and how many bytes
        its arrays have.
        """
        if q.dtype != torch.float32:
            q, k, v, decode = q.float(), k.float(), v.float(), decode._replace(weights=decode.weights.float())
        strides = *q.stride(), *k.stride(), *v.stride()
        key = q.shape, k.shape, v.shape, strides, tuple(decode.key_starts)
        form = self._forms.get(key)
        if form is None:
            if any(x.stride(2) != 1 and x.shape[2] > 1 for x in (q, k, v)):
                return self.layer(number, q.contiguous(), k.contiguous(), v.contiguous(), decode)
            form = self._forms[key] = self._form(q, k, v, decode)
        made = EncodedLayer(number, form.layout)
        to = ctypes.addressof(ctypes.c_char.from_buffer(made.encoded, made.begin))
        weights = decode.weights.contiguous()
        self._store(q.data_ptr(), k.data_ptr(), v.data_ptr(), weights.data_ptr(), to, form.address)
        return made, form.layout.num_bytes

    def _form(self, q: Tensor, k: Tensor, v: Tensor, decode: DecodeWeights) -> _Form:
        rows = [
            DecodedRow(piece.seq_id, piece.start, start, piece.start + 1 - start)
            for piece, start in zip(self._batch.slices, decode.key_starts, strict=True)
        ]
        layout = Layout(self._dtype, tuple(q.shape), tuple(k.shape), tuple(v.shape), rows)
        n, num_heads, length = decode.weights.shape
        shape = n, num_heads, k.shape[1], q.shape[2], v.shape[2], length, self._dtype == "float16"
        strides = *q.stride()[:2], *k.stride()[:2], *v.stride()[:2]
        numbers = np.array([*shape, *strides, *[row.num_keys for row in rows], *layout.places], np.int64)
        return _Form(layout, numbers, numbers.ctypes.data)
