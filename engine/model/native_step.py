"""Layout of a step for `kernels/attend.c`, with which compiled code attends without the interpreter.

    before the forward pass   the layout is written: addresses of each layer's pool, slots of the new tokens, keys of
                              each sequence
    in each layer             the C function `kvtheater::attend` reads only the layout, while other threads run Python
    without a layout          if the recorder needs the arrays or the store does not hold float32, the C function calls
                              Python, which computes attention as in the eager path

Numbers and addresses are int64; the structs are in attend.c.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import torch

from engine.cache.attention_span import AttentionSpan, WindowPolicy, reaches_of
from engine.cache.kv_plane import KVPlane, PlainPlane
from engine.cache.kv_store import KVStore
from engine.model.attention import Recorder
from engine.model.batch import StepBatch
from engine.model.native import StepKernel
from engine.model.thread_count import ThreadCount

Numbers: TypeAlias = "array[int]"  # of int64


class StepLayout(NamedTuple):
    """Layout of a step, and the `ThreadCount` that chose its number of threads."""

    numbers: Numbers
    threads: ThreadCount


NUMBERS_PER_LAYER = 7


class _Layers(NamedTuple):
    """Step-independent part of the layout."""

    table: Numbers  # NUMBERS_PER_LAYER per layer
    reaches: list[AttentionSpan]  # without duplicates


class NativeStep:
    """Layout of a runner's steps. Not thread-safe: one thread owns it."""

    def __init__(
        self,
        store: KVStore,
        num_heads: int,
        sliding_windows: Sequence[int | None],
        policy: WindowPolicy | None,
    ) -> None:
        """`sliding_windows`: the model's windows, one per layer."""
        self._layers = _layers_of(store, sliding_windows, policy)
        self._num_heads = num_heads
        self._weights = np.empty(0, np.float32)
        self._weights_at = 0
        self._referenced: list[Any] = []  # objects that the layout's addresses point into
        self._threads = ThreadCount()

    @property
    def reduced_threads(self) -> int:
        """Number of threads of the last layout if it is reduced, else 0."""
        return self._threads.reduced

    def of(self, batch: StepBatch, recorder: Recorder | None) -> StepLayout | None:
        """Return the layout of a step, valid until the next call; None if the C function cannot read this store, or if
        the recorder needs arrays from Python.
        """
        layers, captured_at = self._layers, 0
        if layers is None:
            return None
        if recorder is not None:
            found = recorder.addresses()
            if found is None:
                return None
            captured_at = found
        reaches = array("q")
        num_decodes, longest = batch.num_decodes, 0
        for reach in layers.reaches:
            slots = batch.slot_mapping(reach)
            keys_at = stride = mask_at = length = spans_at = 0
            if num_decodes:
                keys = batch.decode_keys(reach)
                length, stride, keys_at = keys.length, keys.slots.stride(0), keys.slots.data_ptr()
                mask_at = 0 if keys.mask is None else keys.mask.data_ptr()
                longest = max(longest, length)
            if batch.prefills:
                spans_at = batch.prefill_spans(reach).buffer_info()[0]
            row = slots.data_ptr(), keys_at, stride, mask_at, length, reach.window or 0, reach.sinks, spans_at
            reaches.extend(row)
        size = num_decodes * self._num_heads * longest
        if self._weights.size < size:
            self._weights = np.empty(size, np.float32)
            self._weights_at = self._weights.ctypes.data
        tokens_at = 0 if batch.decode_tokens is None else batch.decode_tokens.data_ptr()
        counts = len(layers.table) // NUMBERS_PER_LAYER, batch.num_tokens, num_decodes, len(batch.prefills)
        tables = layers.table.buffer_info()[0], reaches.buffer_info()[0], tokens_at, self._weights_at
        self._referenced = [batch, recorder, reaches]
        numbers = array("q", (*counts, self._threads.choose(), *tables, self._weights.size, captured_at))
        return StepLayout(numbers, self._threads)


class ActiveStep:
    """Context manager in which layers computed by this thread use a step's layout and its number of threads. On exit
    `num_called` is set to the number of these layers.
    """

    def __init__(self, kernel: StepKernel, layout: StepLayout) -> None:
        self._kernel, self._layout = kernel, layout
        self.num_called = 0

    def __enter__(self) -> Self:
        self._kernel.begin_step(self._layout.numbers.buffer_info()[0])
        return self

    def __exit__(self, *_: object) -> None:
        spent = (ctypes.c_int64 * 2)()
        self.num_called = self._kernel.end_step(ctypes.byref(spent))
        self._layout.threads.note(spent[0] / 1e9, spent[1] / 1e9)


def _layers_of(store: KVStore, sliding_windows: Sequence[int | None], policy: WindowPolicy | None) -> _Layers | None:
    planes = list(zip(store.keys, store.values, strict=True))
    if not all(_is_float32(plane) for pair in planes for plane in pair):
        return None
    layer_reaches = reaches_of(sliding_windows, policy)
    reaches = list(dict.fromkeys(layer_reaches))
    table = array("q")
    for (keys, values), shape, window, reach in zip(planes, store.shapes, sliding_windows, layer_reaches, strict=True):
        pools = keys.pools[0].data_ptr(), values.pools[0].data_ptr()
        table.extend((*pools, *shape, -1 if window is None else window, reaches.index(reach)))
    return _Layers(table, reaches)


def _is_float32(plane: KVPlane) -> bool:
    return isinstance(plane, PlainPlane) and plane.dtype == plane.compute_dtype == torch.float32
