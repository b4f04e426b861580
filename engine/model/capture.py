"""Capture of a step's arrays within a byte budget.

The arrays are captured in this order until the budget is spent:
1. q, k and v of every packed token and the last attention row of every sequence, observed layers first;
2. all rows of the observed heads, observed layers first;
3. if `outputs` are requested, the attention output of each query, observed layers first.

A decode step has one row per sequence, so item 1 covers all its rows.

On the CPU the selection is made before the forward pass, and the arrays are written directly as the log's bytes
(`capture_layout`). On other devices, without a C compiler, or where keys and values are not in a store of blocks, the
arrays are packed into one array of the log's dtype at the end of the pass, and copied to the host in one asynchronous
copy (`host_copy`). Layers and heads that are not captured are not copied.
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

DEFAULT_BUDGET = 8 * 1024 * 1024  # bytes per step
CONTIGUOUS = torch.contiguous_format
Array = np.ndarray[Any, Any]
Layers = Callable[[], Sequence[LayerCapture]]  # waits for the arrays


@dataclass(frozen=True, kw_only=True)
class CaptureRequest:
    """Arrays to capture in a step. `layers` are captured first, and `heads` with all their rows (None = all); unknown
    ids are ignored. With `only`, other layers are not captured at all. With `outputs`, the attention output of each
    query is captured too.
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
    """Tensors of a device, which are rounded, packed and copied to the host at once."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._tensors: list[Tensor] = []
        self._arrays: list[Array] = []
        self._arrival: Arrival = tuple

    def add(self, tensor: Tensor) -> int:
        """Add a tensor; return its index for `array`."""
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def send(self, copies: HostCopies) -> None:
        """Begin to copy the added tensors; later work may then overwrite them. On the CPU they are not copied."""
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
        self._sizes, self._arrival = sizes, copies.to_host([packed])
        self._tensors.clear()

    def array(self, number: int) -> Array:
        """Return a tensor on the host; waits for the copy."""
        if not self._arrays:
            parts = torch.split(self._arrival()[0], self._sizes)
            self._arrays = [part.view(shape).numpy() for part, shape in zip(parts, self._shapes, strict=True)]
        return self._arrays[number]


class ResolvedCapture:
    """Capture request resolved for a model; shared by all steps."""

    def __init__(
        self,
        request: CaptureRequest,
        facts: ModelFacts,
        shapes: Sequence[LayerShape] | None = None,
        policy: WindowPolicy | None = None,
    ) -> None:
        """`shapes`: the layers' shapes in the store of blocks; None if keys and values are not in one. `policy`: limits
        the keys that layers see.
        """
        self.request, self.num_heads = request, facts.num_heads
        layers = range(facts.num_layers)
        observed = [i for i in layers if request.layers is None or i in request.layers]
        others = [i for i in layers if i not in observed]
        self.order = observed if request.only else observed + others
        excluded = others if request.only else []
        self.excluded = frozenset(excluded)
        self.exclusion_note = f"Layers {_ranges(excluded)} were not requested." if excluded else ""
        heads = range(facts.num_heads)
        self.heads = [head for head in heads if request.heads is None or head in request.heads]
        self.dtype = torch.float16 if request.dtype == "float16" else torch.float32
        kernel = capture_kernel() if shapes is not None else None
        self.layout: CaptureLayout | None = None
        if kernel is not None and shapes is not None:
            reaches = reaches_of(facts.sliding_windows, policy)
            self.layout = CaptureLayout(kernel, request.dtype, facts.num_heads, self.heads, shapes, reaches)
            every_layer = set(self.order)
            self.full_plan = every_layer, every_layer, every_layer if request.outputs else set()
            self.full_rows = self.layout.rows(*self.full_plan)


class CaptureRecorder:
    """Recorder of a step. On other devices than the CPU it holds references during the pass and copies at its end."""

    def __init__(self, resolved: ResolvedCapture, batch: StepBatch) -> None:
        self._resolved = resolved
        self._batch = batch
        self._layers: dict[int, _Layer] = {}
        self._sizes: dict[int, tuple[int, int, int]] = {}  # bytes by layer, as `EncodedCapture.sizes`
        self._encoded: EncodedCapture | None = None
        if resolved.layout is not None and batch.is_on_cpu:
            self._encoded = encoded = EncodedCapture(resolved.layout, batch)
            self._planned = resolved.full_plan
            if encoded.measure(resolved.full_rows) > resolved.request.budget_bytes:  # the arrays alone may still fit
                self._sizes = dict(enumerate(encoded.sizes()))
                self._planned = self._plan()
                encoded.measure(resolved.layout.rows(*self._planned))
            encoded.allocate()
        self.keeps = not batch.is_on_cpu

    def record(self, layer: int, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> None:
        if self._encoded is not None:
            self._encoded.layer(layer, q, k, v, attended)
            return
        self._sizes[layer] = self._sizes_of(q, k, v, attended)
        dtype = self._resolved.dtype
        save = _identity if self.keeps else partial(Tensor.to, dtype=dtype, copy=True, memory_format=CONTIGUOUS)
        # compiled code may reuse the output's memory as soon as it has read it
        out = (attended.out.clone() if self.keeps else save(attended.out)) if self._resolved.request.outputs else None
        decode = attended.decode and attended.decode._replace(weights=save(attended.decode.weights))
        prefills = [piece._replace(weights=save(piece.weights)) for piece in attended.prefills]
        self._layers[layer] = _Layer(save(q), save(k), save(v), out, decode, prefills)

    def addresses(self) -> int | None:
        """Implement `Recorder.addresses`."""
        return None if self._encoded is None else self._encoded.addresses()

    def wants(self, layer: int) -> bool:
        """Implement `Recorder.wants`."""
        return layer not in self._resolved.excluded

    def finish(self) -> tuple[Layers, str]:
        """Return the arrays by layer, and a note on omitted arrays ("" if none are). Called after the pass."""
        if self._encoded is not None:
            is_complete, encoded = self._planned is self._resolved.full_plan, self._encoded.layers()
            return lambda: encoded, self._resolved.exclusion_note if is_complete else self._omitted(*self._planned)
        base, full, outputs = self._plan()
        packed = _Packed(self._resolved.dtype)
        captures = [
            self._capture(number, self._layers[number], number in full, number in outputs, packed)
            for number in sorted(base)
        ]
        packed.send(self._batch.copies)
        return cache(lambda: [capture() for capture in captures]), self._omitted(base, full, outputs)

    # -- selection within the budget -------------------------------------------------------------------------------

    def _plan(self) -> tuple[set[int], set[int], set[int]]:
        """Return the layers that capture q, k, v and last rows, those that capture all rows of the observed heads, and
        those that capture their outputs.
        """
        left = self._resolved.request.budget_bytes

        def fitting(kind: int, layers: Iterable[int]) -> set[int]:
            nonlocal left
            found = set()
            for layer in layers:
                if (size := self._sizes[layer][kind]) <= left:
                    found.add(layer)
                    left -= size
            return found

        base = fitting(0, self._resolved.order)
        ordered = [layer for layer in self._resolved.order if layer in base]
        full = fitting(1, ordered)
        outputs = fitting(2, ordered if self._resolved.request.outputs else ())
        return base, full, outputs

    def _sizes_of(self, q: Tensor, k: Tensor, v: Tensor, attended: AttentionOutput) -> tuple[int, int, int]:
        base, size = q.numel() + k.numel() + v.numel(), self._resolved.dtype.itemsize
        if attended.decode is not None:
            num_keys = sum(self._batch.slices[index].start + 1 for index in self._batch.decode_indices)
            base += self._resolved.num_heads * (num_keys - sum(attended.decode.key_starts))
        shapes = [piece.weights.shape for piece in attended.prefills]
        base += self._resolved.num_heads * sum(num_keys for _, _, num_keys in shapes)
        full = len(self._resolved.heads) * sum((num_queries - 1) * num_keys for _, num_queries, num_keys in shapes)
        return base * size, full * size, attended.out.numel() * size

    def _omitted(self, base: set[int], full: set[int], outputs: set[int]) -> str:
        if len(base) == len(full) == len(self._resolved.order) and (
            outputs == base or not self._resolved.request.outputs
        ):
            return self._resolved.exclusion_note
        parts = []
        dropped = [layer for layer in self._resolved.order if layer not in base]
        if dropped:
            parts.append(f"everything of layers {_ranges(dropped)}")
        shortened = [layer for layer in self._resolved.order if layer in base and layer not in full]
        if shortened and self._batch.prefills:
            parts.append(f"all but the last attention row of each sequence in layers {_ranges(shortened)}")
        without = [layer for layer in self._resolved.order if layer in base and layer not in outputs]
        if without and self._resolved.request.outputs:
            parts.append(f"the attention outputs of layers {_ranges(without)}")
        sentences = [self._resolved.exclusion_note]
        if parts:
            budget = self._resolved.request.budget_bytes
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
            outputs = None if out is None else array(out)
            return LayerCapture(layer=number, q=array(q), k=array(k), v=array(v), rows=rows, out=outputs)

        return capture

    def _decode_rows(self, decode: DecodeWeights, weights: Array) -> list[AttentionRows]:
        heads = list(range(self._resolved.num_heads))
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
        """Yield heads, first position and weights: all rows of the observed heads if `full`, the last row of others."""
        observed = self._resolved.heads if full else []
        others = [head for head in range(self._resolved.num_heads) if head not in observed]
        if observed:
            weights = [piece.weights] if not others else [piece.weights[head] for head in observed]
            yield observed, piece.span.start, torch.stack(weights) if others else weights[0]
        if others:
            last = piece.weights[:, -1:]
            weights = [last] if not observed else [last[head] for head in others]
            yield others, piece.span.context_len - 1, torch.stack(weights) if observed else weights[0]


def _identity(tensor: Tensor) -> Tensor:
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
