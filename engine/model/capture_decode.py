"""Capturing a step in which every sequence has one new token: each layer's arrays go straight into the log's bytes.

What is kept is decided, and laid out, before the forward pass: then compiled code writes it without the interpreter
(`native_step`), and no array is an object of its own.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Collection, Sequence
from typing import Literal

from torch import Tensor

from engine.cache.kv_store import LayerShape
from engine.cache.reach import Reach
from engine.model.attention_backend import AttentionOutput
from engine.model.batch import StepBatch
from engine.model.native import CaptureKernel
from engine.trace import encoded


class DecodeForms:
    """What stays the same from step to step. Layers of one shape that see as far are of one kind, laid out alike."""

    def __init__(
        self,
        kernel: CaptureKernel,
        dtype: Literal["float16", "float32"],
        num_heads: int,
        shapes: Sequence[LayerShape],
        reaches: Sequence[Reach],
    ) -> None:
        """Of each layer: its shape, and what its queries see."""
        self.kernel, self.num_heads = kernel, num_heads
        self.size = 2 if dtype == "float16" else 4
        keys = list(zip(shapes, reaches, strict=True))
        self.kinds = list(dict.fromkeys(keys))
        self.kind_of = [self.kinds.index(key) for key in keys]  # by layer
        self._pieces = encoded.pieces(num_heads)
        self.pieces = array("q")  # as layout.c reads them: address and length
        for piece in self._pieces:
            self.pieces.extend((ctypes.cast(ctypes.c_char_p(piece), ctypes.c_void_p).value or 0, len(piece)))
        self.model = array("q", (num_heads, dtype == "float16", len(self.kinds)))
        for shape, _ in self.kinds:
            self.model.extend(shape)


class DecodeCapture:
    """One step's layers."""

    def __init__(self, forms: DecodeForms, batch: StepBatch) -> None:
        self._forms = forms
        n, num_heads, size = batch.num_decodes, forms.num_heads, forms.size
        self._positions = positions = [piece.start for piece in batch.slices]
        num_positions = sum(positions) + n
        self._seq_ids = [piece.seq_id for piece in batch.slices]
        self._longest: list[int] = []  # by kind
        self._first_keys: list[int] = []  # by kind, n each
        base: list[int] = []
        outs: list[int] = []
        for (kv_heads, width, v_width), reach in forms.kinds:
            keys = batch.decode_keys(reach)
            self._longest.append(keys.slots.shape[1])
            self._first_keys += keys.key_starts
            vectors = num_heads * width + kv_heads * (width + v_width)
            base.append((n * vectors + num_heads * (num_positions - sum(keys.key_starts))) * size)
            outs.append(n * num_heads * v_width * size)
        self.base_bytes = [base[kind] for kind in forms.kind_of]  # by layer, of q, k, v and the weights
        self.out_bytes = [outs[kind] for kind in forms.kind_of]  # of what attention gives
        self._captured = array("q", bytes(16 * len(forms.kind_of)))
        self._made: encoded.EncodedLayers | None = None

    def keep(self, layers: Collection[int], with_out: Collection[int]) -> None:
        """Make room for these layers; for what attention gives in some of them."""
        if not layers:
            return
        forms, n = self._forms, len(self._seq_ids)
        step = array("q", (n, len(layers), *self._longest, *self._seq_ids, *self._positions, *self._first_keys))
        for layer in sorted(layers):
            step.extend((layer, forms.kind_of[layer], layer in with_out))
        self._layouts = array("q", bytes(8 * 2 * len(forms.kinds) * (11 + 2 * n)))
        given = [x.buffer_info()[0] for x in (forms.pieces, forms.model, step)]
        written = [x.buffer_info()[0] for x in (self._layouts, self._captured)]
        lay_out = forms.kernel.lay_out
        room = bytearray(lay_out(*given, None, *written))
        lay_out(*given, ctypes.addressof(ctypes.c_char.from_buffer(room)), *written)
        self._made = encoded.EncodedLayers(room, len(layers))

    def addresses(self) -> array[int]:
        """2 a layer: where C writes it, and its form; 0 where it is not kept."""
        return self._captured

    def layer(self, number: int, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> None:
        """Write a layer that C has not: q [n, Hq, D], k [n, Hkv, D], v [n, Hkv, Dv], which are not read afterwards."""
        to, form_at = self._captured[2 * number : 2 * number + 2]
        if not to:
            return
        assert attended.decode is not None
        q, k, v = (x.float() for x in (q, k, v))
        q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q, k, v))
        weights, out = attended.decode.weights.float().contiguous(), attended.out.float().contiguous()
        form = (ctypes.c_int64 * 6).from_address(form_at)
        if [*q.shape, *k.shape[1:], weights.shape[2]] != [form[i] for i in (0, 1, 3, 2, 3, 5)]:
            raise ValueError(f"layer {number} has queries {tuple(q.shape)} and keys {tuple(k.shape)}, not those known")
        strides = (ctypes.c_int64 * 6)(*q.stride()[:2], *k.stride()[:2], *v.stride()[:2])
        self._forms.kernel.store_decode(
            q.data_ptr(), k.data_ptr(), v.data_ptr(), weights.data_ptr(), out.data_ptr(),
            to, form_at, ctypes.addressof(strides),
        )  # fmt: skip

    def layers(self) -> encoded.EncodedLayers | None:
        """Those that are kept, in order; None: no layer is."""
        return self._made
