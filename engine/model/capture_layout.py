"""Captured arrays of a step on the CPU, written by C directly as the log's bytes.

Their selection and layout are fixed before the forward pass (`kernels/layout.c`), so that compiled code writes them
without the interpreter (`native_step`) and no array is a Python object.
"""

from __future__ import annotations

import ctypes
import mmap
from array import array
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, Literal

from torch import Tensor

from engine.cache.attention_span import AttentionSpan
from engine.cache.kv_store import LayerShape
from engine.model.attention_backend import AttentionOutput
from engine.model.batch import StepBatch
from engine.model.native import CaptureKernel, threads_for
from engine.trace import encoded

FORM, SLICE = 14, 4  # number of integers in the structs of kernels/capture.h
HUGE_PAGE = 2 << 20  # bytes
_bytearray: Any = ctypes.pythonapi.PyByteArray_FromStringAndSize  # given NULL, it does not initialize the bytes
_bytearray.argtypes, _bytearray.restype = (ctypes.c_char_p, ctypes.c_ssize_t), ctypes.py_object


def _allocate(size: int) -> bytearray | memoryview:
    """Return `size` uninitialized bytes, from HUGE_PAGE bytes on in huge pages if the system supports them: with pages
    of 4 KiB, the page faults of the first writes take longer than the writes.
    """
    if size < HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        small: bytearray = _bytearray(None, size)
        return small
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # this kernel has no huge pages
        pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages)


class CaptureLayout:
    """Part of the layout that is the same for every step. Layers with equal shape and reach form a kind."""

    def __init__(
        self,
        kernel: CaptureKernel,
        dtype: Literal["float16", "float32"],
        num_heads: int,
        heads: Sequence[int],
        shapes: Sequence[LayerShape],
        reaches: Sequence[AttentionSpan],
    ) -> None:
        """`heads`: heads whose rows may all be captured in a prefill; `shapes` and `reaches` are per layer."""
        self.kernel, self.num_heads, self.num_full = kernel, num_heads, len(heads)
        self.size = 2 if dtype == "float16" else 4
        keys = list(zip(shapes, reaches, strict=True))
        self.kinds = list(dict.fromkeys(keys))
        self.kind_of = [self.kinds.index(key) for key in keys]  # by layer
        others = [head for head in range(num_heads) if head not in heads]
        self._pieces = encoded.pieces(list(heads), others)
        self.pieces = array("q")  # as read by layout.c: address and length
        for piece in self._pieces:
            self.pieces.extend((ctypes.cast(ctypes.c_char_p(piece), ctypes.c_void_p).value or 0, len(piece)))
        self.model = array("q", (num_heads, dtype == "float16", len(keys), len(self.kinds), len(heads)))
        for shape, _ in self.kinds:
            self.model.extend(shape)
        order = [*heads, *others]
        self.model.extend(map(order.index, range(num_heads)))
        self.addresses = self.pieces.buffer_info()[0], self.model.buffer_info()[0]
        self._blank: dict[int, array[int]] = {}

    def rows(self, layers: Collection[int], full: Collection[int], outputs: Collection[int]) -> array[int]:
        """Return these layers for layout.c: number, kind, and flags (1: with attention output, 2: with all rows)."""
        flags = ((layer, self.kind_of[layer], (layer in outputs) + 2 * (layer in full)) for layer in sorted(layers))
        return array("q", (number for row in flags for number in row))

    def blank(self, n: int) -> array[int]:
        """Return zeros in place of the numbers that layout.c writes for a step of n slices."""
        found = self._blank.get(n)
        if found is None:
            count = 2 * len(self.kind_of) + 4 * len(self.kinds) * (FORM + SLICE * n)
            self._blank = {n: (found := array("q", bytes(8 * count)))}
        return found


class EncodedCapture:
    """Captured layers of a step. This class leaves most of the work to C: a step's weights evict the CPU caches, so its
    code and objects are read from memory in every step, which is five times slower.
    """

    def __init__(self, layout: CaptureLayout, batch: StepBatch) -> None:
        self._layout = layout
        self._n, self._num_tokens = len(batch.slices), batch.num_tokens
        slices = [(piece.seq_id, piece.start, len(piece.token_ids)) for piece in batch.slices]
        longest: list[int] = []  # by kind
        first_keys: list[int] = []  # by kind, n each
        for _, reach in layout.kinds:
            longest.append(batch.decode_keys(reach).length if batch.num_decodes else 0)
            first_keys += [reach.first_key(start) for _, start, _ in slices]
        self._slices = slices
        self._known = [*longest, *(number for piece in slices for number in piece), *first_keys]

    def sizes(self) -> list[tuple[int, int, int]]:
        """Return per layer the bytes of q, k, v and the last rows; of the other rows; and of the attention output."""
        layout, found = self._layout, list[tuple[int, int, int]]()
        for (heads, width, v_width), reach in layout.kinds:
            keys = [(count, start + count - reach.first_key(start)) for _, start, count in self._slices]
            vectors = layout.num_heads * width + heads * (width + v_width)
            base = self._num_tokens * vectors + layout.num_heads * sum(length for _, length in keys)
            full = layout.num_full * sum((count - 1) * length for count, length in keys)
            out = self._num_tokens * layout.num_heads * v_width
            found.append((base * layout.size, full * layout.size, out * layout.size))
        return [found[kind] for kind in layout.kind_of]

    def measure(self, rows: array[int]) -> int:
        """Return the encoded size in bytes of these layers (`CaptureLayout.rows`), including the headers of arrays."""
        layout = self._layout
        numbers = array("q", (self._n, self._num_tokens, len(rows) // 3, *self._known))
        numbers += rows
        self._written_at = len(numbers)
        numbers += layout.blank(self._n)
        self._numbers, self._numbers_at = numbers, numbers.buffer_info()[0]
        found: int = layout.kernel.lay_out(*layout.addresses, self._numbers_at, None)
        self._num_bytes = found
        return found

    def allocate(self) -> None:
        """Allocate the bytes of the layers that were measured last."""
        buffer = _allocate(self._num_bytes)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        self._layout.kernel.lay_out(*self._layout.addresses, self._numbers_at, begin)
        self._encoded = encoded.EncodedLayers(buffer, self._numbers[2])

    def addresses(self) -> int:
        """Return the address of C's table, valid while this object lives: per layer the address to write it to (0: it
        is not captured) and that of its form.
        """
        return self._numbers_at + 8 * self._written_at

    def layer(self, number: int, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> None:
        """Write a layer whose attention was not computed by C: q [T, Hq, D], k [T, Hkv, D], v [T, Hkv, Dv]."""
        at = self._written_at + 2 * number
        to, form_at = self._numbers[at : at + 2]
        if not to:
            return
        q, k, v = (x.float() for x in (q, k, v))
        q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q, k, v))
        weights = None if attended.decode is None else attended.decode.weights.float().contiguous()
        out = attended.out.float().contiguous()
        form = (ctypes.c_int64 * 7).from_address(form_at)
        longest = 0 if weights is None else weights.shape[2]
        if [*q.shape, *k.shape[1:], v.shape[2], longest] != [form[i] for i in (1, 2, 4, 3, 4, 5, 6)]:
            raise ValueError(f"layer {number} has unexpected shapes: q {tuple(q.shape)}, k {tuple(k.shape)}")
        strides = (ctypes.c_int64 * 6)(*q.stride()[:2], *k.stride()[:2], *v.stride()[:2])
        self._layout.kernel.store_layer(
            q.data_ptr(), k.data_ptr(), v.data_ptr(), None if weights is None else weights.data_ptr(), out.data_ptr(),
            to, form_at, ctypes.addressof(strides), threads_for(q.numel()),
        )  # fmt: skip
        for piece in attended.prefills:
            rows = piece.weights.float().contiguous()
            self._layout.kernel.store_prefill(rows.data_ptr(), to, form_at, piece.span.slice_index)

    def layers(self) -> encoded.EncodedLayers:
        """Return the captured layers, in order."""
        return self._encoded
