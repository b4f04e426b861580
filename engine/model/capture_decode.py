"""Capturing a step in which every sequence has one new token: each layer's arrays go straight into the log's bytes.

What is kept is decided, and laid out, before the forward pass: then compiled code writes it without the interpreter
(`native_step`), and no array is an object of its own.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from engine.cache.kv_store import LayerShape
from engine.cache.reach import Reach
from engine.model.attention_backend import AttentionOutput
from engine.model.batch import StepBatch
from engine.model.native import CaptureKernel
from engine.trace.encoded import DecodedRow, EncodedLayer, Layout


class DecodeCapture:
    """One step's layers."""

    def __init__(
        self,
        kernel: CaptureKernel,
        batch: StepBatch,
        dtype: Literal["float16", "float32"],
        num_heads: int,
        shapes: Sequence[LayerShape],
        sliding_windows: Sequence[int | None],
    ) -> None:
        """Of each layer: its shape, and the window that the model gives it."""
        self._store, self._batch, self._dtype = kernel.store_decode, batch, dtype
        self._num_heads, self._shapes = num_heads, shapes
        self._reaches = [batch.reach(layer, window) for layer, window in enumerate(sliding_windows)]
        self._size = 2 if dtype == "float16" else 4
        self._base_bytes: dict[tuple[LayerShape, Reach], int] = {}
        self._forms: dict[tuple[LayerShape, Reach, bool], tuple[Layout, array[int]]] = {}
        self._made: dict[int, tuple[EncodedLayer, array[int]]] = {}

    def base_bytes(self, layer: int) -> int:
        """Of q, k, v and the weights."""
        key = self._shapes[layer], self._reaches[layer]
        found = self._base_bytes.get(key)
        if found is None:
            shape, batch = key[0], self._batch
            num_keys = sum(piece.start + 1 for piece in batch.slices) - sum(batch.decode_keys(key[1]).key_starts)
            vectors = self._num_heads * shape.head_dim + shape.num_kv_heads * (shape.head_dim + shape.v_head_dim)
            found = (batch.num_decodes * vectors + self._num_heads * num_keys) * self._size
            self._base_bytes[key] = found
        return found

    def out_bytes(self, layer: int) -> int:
        """Of what attention gives."""
        return self._batch.num_decodes * self._num_heads * self._shapes[layer].v_head_dim * self._size

    def keep(self, layer: int, with_out: bool) -> None:
        """Make room for a layer."""
        key = self._shapes[layer], self._reaches[layer], with_out
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = self._form(*key)
        self._made[layer] = EncodedLayer(layer, form[0]), form[1]

    def _form(self, shape: LayerShape, reach: Reach, with_out: bool) -> tuple[Layout, array[int]]:
        n, num_heads, keys = self._batch.num_decodes, self._num_heads, self._batch.decode_keys(reach)
        rows = [
            DecodedRow(piece.seq_id, piece.start, start, piece.start + 1 - start)
            for piece, start in zip(self._batch.slices, keys.key_starts, strict=True)
        ]
        kv_heads, width, v_width = shape
        out = (n, num_heads, v_width) if with_out else None
        arrays = (n, num_heads, width), (n, kv_heads, width), (n, kv_heads, v_width)
        layout = Layout(self._dtype, *arrays, rows, out)
        form = array("q", (n, num_heads, kv_heads, width, v_width, keys.slots.shape[1], self._dtype == "float16"))
        form.extend([row.num_keys for row in rows])
        form.extend(layout.places)
        if not with_out:
            form.append(-1)
        return layout, form

    def addresses(self) -> array[int]:
        """2 a layer: where C writes it, and its form; 0 where it is not kept."""
        table = array("q")
        for layer in range(len(self._shapes)):
            found = self._made.get(layer)
            table.extend((0, 0) if found is None else (_address(found[0]), found[1].buffer_info()[0]))
        return table

    def layer(self, number: int, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> None:
        """Write a layer that C has not: q [n, Hq, D], k [n, Hkv, D], v [n, Hkv, Dv], which are not read afterwards."""
        if number not in self._made:
            return
        made, form = self._made[number]
        assert attended.decode is not None
        q, k, v = (x.float() for x in (q, k, v))
        q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q, k, v))
        weights, out = attended.decode.weights.float().contiguous(), attended.out.float().contiguous()
        if [*q.shape, *k.shape[1:], weights.shape[2]] != [form[i] for i in (0, 1, 3, 2, 3, 5)]:
            raise ValueError(f"layer {number} has queries {tuple(q.shape)} and keys {tuple(k.shape)}, not those known")
        strides = (ctypes.c_int64 * 6)(*q.stride()[:2], *k.stride()[:2], *v.stride()[:2])
        self._store(
            q.data_ptr(), k.data_ptr(), v.data_ptr(), weights.data_ptr(), out.data_ptr(),
            _address(made), form.buffer_info()[0], ctypes.addressof(strides),
        )  # fmt: skip

    def layers(self) -> list[EncodedLayer]:
        """Those that are kept, in order."""
        return [self._made[layer][0] for layer in sorted(self._made)]


def _address(made: EncodedLayer) -> int:
    """Where the layout's bytes begin."""
    return ctypes.addressof(ctypes.c_char.from_buffer(made.encoded, made.begin))
