"""Capture of a step's arrays within a byte budget.

Captured, in this order while the budget lasts:
1. q, k and v of every packed token and the last attention row of every sequence, observed layers first;
2. all rows of the observed heads, observed layers first;
3. if `outputs` are requested, the attention output of each query, observed layers first.

A decode step has one row per sequence, so 1. has all of them.

On the CPU this is decided before the forward pass, and the arrays are written directly as the log's bytes
(`capture_layout`). On another device, without a C compiler, or where keys and values are not in a store of blocks, they
are packed into one array of the log's dtype at the end of the pass and copied to the host at once, behind the device's
work (`host_copy`); layers and heads that are not captured are not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from engine.cache.attention_span import WindowPolicy, reaches_of
from engine.cache.kv_store import LayerShape
from engine.model.attention_backend import AttentionOutput, DecodeWeights, PrefillWeights
from engine.model.batch import StepBatch
from engine.model.capture_layout import CaptureLayout, EncodedCapture
from engine.model.host_copy import Arrival, HostCopies
from engine.model.native import capture_kernel
from engine.trace.records import AttentionRows, LayerCapture, ModelFacts

DEFAULT_BUDGET = 8 * 1024 * 1024  # bytes a step
CONTIGUOUS = torch.contiguous_format
Array = np.ndarray[Any, Any]
Layers = Callable[[], Sequence[LayerCapture]]  # waits for the arrays


@dataclass(frozen=True, kw_only=True)
class CaptureRequest:
    """Arrays to capture in a step. `layers` come first, `heads` with all rows (None = all); unknown ids are ignored.

    `only`: no other layers, even within the budget. `outputs`: also the sum of weight · v of each query.
    """

    layers: list[int] | None = None
    only: bool = False
    outputs: bool = False
    heads: list[int] | None = None  # query heads
    budget_bytes: int = DEFAULT_BUDGET
    dtype: Literal["float16", "float32"] = "float16"


@dataclass(slots=True)
class _Layer:
    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor | None
    decode: DecodeWeights | None
    prefills: list[PrefillWeights]


class _Packed:
    """Tensors of a device, rounded and packed into one copy to the host."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._tensors: list[Tensor] = []
        self._arrays: list[Array] = []
        self._arrival: Arrival = tuple

    def add(self, tensor: Tensor) -> int:
        """Add a tensor; return its number for `array`."""
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def send(self, copies: HostCopies) -> None:
        """Begin to copy the added tensors, which later work may overwrite. On the CPU they are final."""
        sizes = [tensor.numel() for tensor in self._tensors]
        if not sizes:
            return
        if copies.on_host:
            self._arrays = [tensor.numpy() for tensor in self._tensors]
            return
        packed = torch.empty(sum(sizes), dtype=self._dtype, device=self._tensors[0].device)
        self._shapes = [tensor.shape for tensor in self._tensors]
        views = [part.view(shape) for part, shape in zip(torch.split(packed, sizes), self._shapes, strict=True)]
        torch._foreach_copy_(views, self._tensors)
        self._sizes, self._arrival = sizes, copies.down([packed])
        self._tensors.clear()

    def array(self, number: int) -> Array:
        """Return a tensor on the host; waits until all of them have arrived."""
        if not self._arrays:
            parts = torch.split(self._arrival()[0], self._sizes)
            self._arrays = [part.view(shape).numpy() for part, shape in zip(parts, self._shapes, strict=True)]
        return self._arrays[number]


class Capturing:
    """Capture request resolved for a model; the same for every step."""

    def __init__(
        self,
        request: CaptureRequest,
        facts: ModelFacts,
        shapes: Sequence[LayerShape] | None = None,
        policy: WindowPolicy | None = None,
    ) -> None:
        """`shapes`: of each layer in a store of blocks; None: keys and values lie elsewhere. `policy`: limits the keys
        that layers see.
        """
        self.request, self.num_heads = request, facts.num_heads
        layers = range(facts.num_layers)
        observed = [i for i in layers if request.layers is None or i in request.layers]
        others = [i for i in layers if i not in observed]
        self.order = observed if request.only else observed + others
        unasked = others if request.only else []
        self.unasked = frozenset(unasked)
        self.not_requested = f"Layers {_ranges(unasked)} were not asked for." if unasked else ""
        heads = range(facts.num_heads)
        self.heads = [head for head in heads if request.heads is None or head in request.heads]
        self.dtype = torch.float16 if request.dtype == "float16" else torch.float32
        kernel = capture_kernel() if shapes is not None else None
        self.layout: CaptureLayout | None = None
        if kernel is not None and shapes is not None:
            reaches = reaches_of(facts.sliding_windows, policy)
            self.layout = CaptureLayout(kernel, request.dtype, facts.num_heads, self.heads, shapes, reaches)
            everything = set(self.order)
            self.everything = everything, everything, everything if request.outputs else set()
            self.rows_of_all = self.layout.rows(*self.everything)


class CaptureRecorder:
    """Records a step; on another device than the CPU it holds references in the forward pass and copies at its end."""

    def __init__(self, capturing: Capturing, batch: StepBatch) -> None:
        self._what = what = capturing
        self._batch = batch
        self._layers: dict[int, _Layer] = {}
        self._sizes: dict[int, tuple[int, int, int]] = {}  # bytes by layer, as `EncodedCapture.sizes`
        self._encoded: EncodedCapture | None = None
        if what.layout is not None and batch.is_on_cpu:
            self._encoded = made = EncodedCapture(what.layout, batch)
            self._planned = what.everything
            if made.measure(what.rows_of_all) > what.request.budget_bytes:  # its numbers alone may still fit
                self._sizes = dict(enumerate(made.sizes()))
                self._planned = self._plan()
                made.measure(what.layout.rows(*self._planned))
            made.make_room()
        self.keeps = not batch.is_on_cpu

    def record(self, layer: int, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> None:
        if self._encoded is not None:
            self._encoded.layer(layer, q, k, v, attended)
            return
        self._sizes[layer] = self._sizes_of(q, k, v, attended)
        own = _as_is if self.keeps else partial(Tensor.to, dtype=self._what.dtype, copy=True, memory_format=CONTIGUOUS)
        # compiled code may reuse the output's memory as soon as it has read it
        out = (attended.out.clone() if self.keeps else own(attended.out)) if self._what.request.outputs else None
        decode = attended.decode and attended.decode._replace(weights=own(attended.decode.weights))
        prefills = [piece._replace(weights=own(piece.weights)) for piece in attended.prefills]
        self._layers[layer] = _Layer(own(q), own(k), own(v), out, decode, prefills)

    def addresses(self) -> int | None:
        """Implement `Recorder.addresses`."""
        return None if self._encoded is None else self._encoded.addresses()

    def wants(self, layer: int) -> bool:
        """Implement `Recorder.wants`."""
        return layer not in self._what.unasked

    def finish(self) -> tuple[Layers, str]:
        """Return the arrays by layer, and one sentence on what was left out ("" = nothing). Called after the pass."""
        if self._encoded is not None:
            is_whole, made = self._planned is self._what.everything, self._encoded.layers()
            return lambda: made, self._what.not_requested if is_whole else self._omitted(*self._planned)
        base, full, outputs = self._plan()
        packed = _Packed(self._what.dtype)
        captures = [
            self._capture(number, self._layers[number], number in full, number in outputs, packed)
            for number in sorted(base)
        ]
        packed.send(self._batch.copies)
        return cache(lambda: [capture() for capture in captures]), self._omitted(base, full, outputs)

    # -- what fits -------------------------------------------------------------------------------------------------

    def _plan(self) -> tuple[set[int], set[int], set[int]]:
        """Return the layers that capture q, k, v and last rows, those that capture all rows of the observed heads, and
        those that capture their outputs.
        """
        left = self._what.request.budget_bytes

        def fitting(kind: int, layers: Iterable[int]) -> set[int]:
            nonlocal left
            found = set()
            for layer in layers:
                if (size := self._sizes[layer][kind]) <= left:
                    found.add(layer)
                    left -= size
            return found

        base = fitting(0, self._what.order)
        ordered = [layer for layer in self._what.order if layer in base]
        full = fitting(1, ordered)
        outputs = fitting(2, ordered if self._what.request.outputs else ())
        return base, full, outputs

    def _sizes_of(self, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> tuple[int, int, int]:
        base, size = q.numel() + k.numel() + v.numel(), self._what.dtype.itemsize
        if attended.decode is not None:
            # positions up to their new tokens, which are the last
            num_keys = sum(self._batch.slices[index].start + 1 for index in self._batch.decode_indices)
            base += self._what.num_heads * (num_keys - sum(attended.decode.key_starts))
        shapes = [piece.weights.shape for piece in attended.prefills]
        base += self._what.num_heads * sum(num_keys for _, _, num_keys in shapes)
        full = len(self._what.heads) * sum((num_queries - 1) * num_keys for _, num_queries, num_keys in shapes)
        return base * size, full * size, attended.out.numel() * size

    def _omitted(self, base: set[int], full: set[int], outputs: set[int]) -> str:
        if len(base) == len(full) == len(self._what.order) and (outputs == base or not self._what.request.outputs):
            return self._what.not_requested
        parts = []
        dropped = [layer for layer in self._what.order if layer not in base]
        if dropped:
            parts.append(f"everything of layers {_ranges(dropped)}")
        shortened = [layer for layer in self._what.order if layer in base and layer not in full]
        if shortened and self._batch.prefills:
            parts.append(f"all but the last attention row of each sequence in layers {_ranges(shortened)}")
        without = [layer for layer in self._what.order if layer in base and layer not in outputs]
        if without and self._what.request.outputs:
            parts.append(f"the attention outputs of layers {_ranges(without)}")
        sentences = [self._what.not_requested]
        if parts:
            budget = self._what.request.budget_bytes
            sentences.append(f"Left out by the budget of {budget} bytes a step: {'; '.join(parts)}.")
        return " ".join(filter(None, sentences))

    # -- copying ---------------------------------------------------------------------------------------------------

    def _capture(
        self, number: int, layer: _Layer, full: bool, with_out: bool, packed: _Packed
    ) -> Callable[[], LayerCapture]:
        """Pack a layer's arrays; return the function that builds its capture on the host."""
        q, k, v = map(packed.add, (layer.q, layer.k, layer.v))
        out = packed.add(layer.out) if with_out and layer.out is not None else None
        decode = None if layer.decode is None else packed.add(layer.decode.weights)
        prefills = [
            (piece, heads, start, packed.add(weights))
            for piece in layer.prefills
            for heads, start, weights in self._prefill_rows(piece, full)
        ]
        position = {piece.seq_id: index for index, piece in enumerate(self._batch.slices)}

        def capture() -> LayerCapture:
            array = packed.array
            rows = [] if layer.decode is None or decode is None else self._decode_rows(layer.decode, array(decode))
            for piece, heads, start, weights in prefills:
                seq_id = self._batch.slices[piece.span.slice_index].seq_id
                rows.append(
                    AttentionRows(
                        seq_id=seq_id,
                        query_start=start,
                        key_start=piece.key_start,
                        heads=heads,
                        weights=array(weights),
                    )
                )
            if prefills:
                rows.sort(key=lambda row: position[row.seq_id])
            given = None if out is None else array(out)
            return LayerCapture(layer=number, q=array(q), k=array(k), v=array(v), rows=rows, out=given)

        return capture

    def _decode_rows(self, decode: DecodeWeights, weights: Array) -> list[AttentionRows]:
        heads = list(range(self._what.num_heads))
        rows = []
        for i, index in enumerate(self._batch.decode_indices):
            piece, key_start = self._batch.slices[index], decode.key_starts[i]
            rows.append(
                AttentionRows(
                    seq_id=piece.seq_id,
                    query_start=piece.start,
                    key_start=key_start,
                    heads=heads,
                    weights=weights[i, :, None, : piece.start + 1 - key_start],
                )
            )
        return rows

    def _prefill_rows(self, piece: PrefillWeights, full: bool) -> Iterator[tuple[list[int], int, Tensor]]:
        """Yield all rows of the observed heads if `full`, the last row of others: heads, first position, weights."""
        observed = self._what.heads if full else []
        others = [head for head in range(self._what.num_heads) if head not in observed]
        if observed:
            weights = [piece.weights] if not others else [piece.weights[head] for head in observed]
            yield observed, piece.span.start, torch.stack(weights) if others else weights[0]
        if others:
            last = piece.weights[:, -1:]
            weights = [last] if not observed else [last[head] for head in others]
            yield others, piece.span.context_len - 1, torch.stack(weights) if observed else weights[0]


def _as_is(tensor: Tensor) -> Tensor:
    return tensor


def _ranges(numbers: list[int]) -> str:
    """Format numbers as ranges: [0, 1, 2, 5] -> "0-2, 5"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
