"""Capture of a step in which every sequence has one new token: each layer's arrays are written as the log's bytes.

The selection and its layout are fixed before the forward pass, so that compiled code writes the arrays without the
interpreter (`native_step`) and no array is a Python object.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Collection, Sequence
from typing import Literal

from torch import Tensor

from engine.cache.attention_span import AttentionSpan
from engine.cache.kv_store import LayerShape
from engine.model.attention_backend import AttentionOutput
from engine.model.batch import StepBatch
from engine.model.native import CaptureKernel
from engine.trace import encoded


class DecodeForms:
    """Step-independent layout. Layers with the same shape and reach are of one kind and have the same layout."""

    def __init__(
        self,
        kernel: CaptureKernel,
        dtype: Literal["float16", "float32"],
        num_heads: int,
        shapes: Sequence[LayerShape],
        reaches: Sequence[AttentionSpan],
    ) -> None:
        """`shapes` and `reaches` are per layer."""
        self.kernel, self.num_heads = kernel, num_heads
        self.size = 2 if dtype == "float16" else 4
        keys = list(zip(shapes, reaches, strict=True))
        self.kinds = list(dict.fromkeys(keys))
        self.kind_of = [self.kinds.index(key) for key in keys]  # by layer
        self._pieces = encoded.pieces(num_heads)
        self.pieces = array("q")  # as read by layout.c: address and length
        for piece in self._pieces:
            self.pieces.extend((ctypes.cast(ctypes.c_char_p(piece), ctypes.c_void_p).value or 0, len(piece)))
        self.model = array("q", (num_heads, dtype == "float16", len(keys), len(self.kinds)))
        for shape, _ in self.kinds:
            self.model.extend(shape)
        self.addresses = self.pieces.buffer_info()[0], self.model.buffer_info()[0]
        self._blank: dict[int, array[int]] = {}

    def rows(self, layers: Collection[int], with_out: Collection[int]) -> array[int]:
        """Return these layers as read by layout.c: number, kind, whether the attention output is captured."""
        return array("q", (x for layer in sorted(layers) for x in (layer, self.kind_of[layer], layer in with_out)))

    def blank(self, n: int) -> array[int]:
        """Return zeros for the numbers that layout.c writes for a step of n sequences."""
        found = self._blank.get(n)
        if found is None:
            self._blank = {n: (found := array("q", bytes(16 * (len(self.kind_of) + len(self.kinds) * (11 + 2 * n)))))}
        return found


class DecodeCapture:
    """Captured layers of a step. In a step the weights evict every CPU cache: this class's code and objects come from
    memory each time, five times slower than from cache. So it does little and leaves the rest to C.
    """

    def __init__(self, forms: DecodeForms, batch: StepBatch) -> None:
        self._forms = forms
        self._n = len(batch.slices)
        longest: list[int] = []  # by kind
        first_keys: list[int] = []  # by kind, n each
        for _, reach in forms.kinds:
            keys = batch.decode_keys(reach)
            longest.append(keys.length)
            first_keys += keys.key_starts
        self._known = [
            *longest, *[piece.seq_id for piece in batch.slices], *[piece.start for piece in batch.slices], *first_keys
        ]  # fmt: skip

    def base_bytes(self) -> list[int]:
        """Return the bytes of q, k, v and weights by layer."""
        forms, n, kinds = self._forms, self._n, len(self._forms.kinds)
        positions, found = self._known[kinds + n : kinds + 2 * n], list[int]()
        for kind, ((heads, width, v_width), _) in enumerate(forms.kinds):
            first_keys = self._known[kinds + (2 + kind) * n : kinds + (3 + kind) * n]
            vectors = forms.num_heads * width + heads * (width + v_width)
            num_weights = forms.num_heads * (sum(positions) + n - sum(first_keys))
            found.append((n * vectors + num_weights) * forms.size)
        return [found[kind] for kind in forms.kind_of]

    def out_bytes(self, layer: int) -> int:
        """Return the bytes of a layer's attention output."""
        (_, _, v_width), _ = self._forms.kinds[self._forms.kind_of[layer]]
        return self._n * self._forms.num_heads * v_width * self._forms.size

    def measure(self, rows: array[int]) -> int:
        """Return the encoded bytes of these layers (`DecodeForms.rows`), separators between their numbers included."""
        forms = self._forms
        numbers = array("q", (self._n, len(rows) // 3, *self._known))
        numbers += rows
        self._written_at = len(numbers)
        numbers += forms.blank(self._n)
        self._numbers, self._numbers_at = numbers, numbers.buffer_info()[0]
        found: int = forms.kernel.lay_out(*forms.addresses, self._numbers_at, None)
        self._num_bytes = found
        return found

    def make_room(self) -> None:
        """Allocate the bytes of the layers that were measured last."""
        room = bytearray(self._num_bytes)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(room))
        self._forms.kernel.lay_out(*self._forms.addresses, self._numbers_at, begin)
        self._made = encoded.EncodedLayers(room, self._numbers[1])

    def addresses(self) -> int:
        """Return the address of C's table, valid while this object lives: 2 numbers per layer, where to write it (0: it
        is not captured) and its form.
        """
        return self._numbers_at + 8 * self._written_at

    def layer(self, number: int, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> None:
        """Write a layer that C did not: q [n, Hq, D], k [n, Hkv, D], v [n, Hkv, Dv], which are not read afterwards."""
        at = self._written_at + 2 * number
        to, form_at = self._numbers[at : at + 2]
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

    def layers(self) -> encoded.EncodedLayers:
        """Return the captured layers, in order."""
        return self._made
