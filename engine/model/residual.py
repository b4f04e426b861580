"""Residual stream of one position, observed by hooks in a pass without the cache (`recompute`), and its logit lens.

    before -> norm -> attention -> + -> between -> norm -> feed-forward -> + -> after          each decoder layer

No family is named here. The hooks record each direct child of a layer, with the last token's input and output, in the
order in which they run. What attention adds is the output of the child that has the attention, and of what reads just
that (a norm after it, dropout); what the feed-forward block adds is the output of the last child. The sum is compared
with what the layer returns: a layer that adds in another way has no parts. Some families multiply what is added by a
constant: it is fitted to the layers whose plain sum is not what they return, else it would be fitted to rounding. The
modules that run after the last layer are the final norm and the output head; applied to the last residual they must
give the pass's own logits.

Logit lens: nostalgebraist, "interpreting GPT: the logit lens" (2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from engine.model.attention import Context, current
from engine.model.decoder_layers import attends, decoder_layers
from engine.model.loaded import LoadedModel
from engine.trace.records import Candidate
from engine.trace.residual import MissingPart, ResidualStream

LENS_TOKENS = 3
LENS_ROWS = 64  # positions whose logits [LENS_ROWS, V] are in memory at once
TOLERANCES = {torch.float32: 1e-4}  # of the largest number of a sum; in half precision every addition rounds
HALF_TOLERANCE = 0.03
PARTS = ("before", "attention", "between", "ffn", "after")

Vector = Tensor  # [n] float32


class Call(NamedTuple):
    """A module that ran, with the last token's input and output."""

    module: nn.Module
    given: Vector | None
    returned: Vector | None


class Added(NamedTuple):
    """Vectors that the two blocks of a layer return, and the one that the feed-forward block reads."""

    attention: Vector
    ffn: Vector
    reads: Vector


class ResidualWatch:
    """Hooks of one pass."""

    def __init__(self, model: LoadedModel, layer: int, count: int = 1) -> None:
        """`layer`: the one whose vectors are kept, and its output of the last `count` tokens; every layer has keys."""
        self._model = model
        self._layers = decoder_layers(model.module)
        self._chosen, self._count = layer, count
        self._residuals: Tensor | None = None  # [count, n] after the chosen layer
        self._whole: list[Call] = []  # of the decoder layers
        self._children: list[list[Call]] = [[] for _ in self._layers]
        self._inner: list[Call] = []  # modules with weights in the chosen layer
        self._tail: list[Call] = []  # what ran after the last layer
        self._tolerance = TOLERANCES.get(model.dtype, HALF_TOLERANCE)

    @contextmanager
    def watching(self, context: Context) -> Iterator[None]:
        """Record what this thread runs as the step of `context`; other threads may run the same modules."""
        with ExitStack() as hooks:

            def watch(module: nn.Module, calls: list[Call], after: int = 0) -> None:
                def note(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
                    if current() is context and len(self._whole) >= after:
                        calls.append(Call(module, _last(args) if args else _last(kwargs), _last(output)))

                hooks.callback(module.register_forward_hook(note, with_kwargs=True).remove)

            def begun(_module: nn.Module, args: Any, kwargs: Any) -> None:
                if current() is context:
                    self._begins.append(_last(args) if args else _last(kwargs))

            def returned(_module: nn.Module, _args: Any, output: Any) -> None:
                if current() is context:
                    self._residuals = _rows(output, self._count)

            self._begins: list[Vector | None] = []  # before a layer may write into its input
            for layer, calls in zip(self._layers, self._children, strict=True):
                hooks.callback(layer.register_forward_pre_hook(begun, with_kwargs=True).remove)
                watch(layer, self._whole)
                for child in layer.children():
                    watch(child, calls)
            if self._layers:
                hooks.callback(self._layers[self._chosen].register_forward_hook(returned).remove)
                for module in self._layers[self._chosen].modules():
                    if _has_matrix(module):
                        watch(module, self._inner)
            for module in _outside(self._model.module, self._layers):
                watch(module, self._tail, len(self._layers))
            yield

    def result(self, logits: Tensor, position: int) -> ResidualStream:
        """Return what was recorded, as far as it agrees with the layers' outputs and the pass's logits [V]."""
        missing: list[MissingPart] = []
        vectors: dict[str, Vector] = {}
        norms = np.zeros((len(self._layers), len(PARTS)), np.float32)
        is_parallel, is_apart = False, False
        passed = [
            (index, before, whole.returned, self._added(index, before, whole.returned))
            for index, (whole, before) in enumerate(zip(self._whole, self._begins, strict=True))
            if before is not None and whole.returned is not None
        ]
        factor = self._factor([(before, after, added) for _, before, after, added in passed if added])
        for index, before, after, added in passed:
            found = {"before": before, "after": after}
            parts = self._parts(before, after, added, factor) if added else None
            if parts is None:
                is_apart = True
            else:
                found |= parts[0]
            norms[index] = [float(found[name].norm()) if name in found else 0 for name in PARTS]
            if index == self._chosen:
                is_parallel = parts is not None and parts[1]
                vectors |= found | self._inputs(missing)
            if index == 0:
                vectors["embedding"] = before
        if is_apart:
            missing.append("apart")
        lens, layer_lens = self._lens(logits, missing)
        return ResidualStream(
            position=position,
            layer=self._chosen,
            is_parallel=is_parallel,
            vectors={name: vector.cpu().numpy() for name, vector in vectors.items()},
            norms=norms,
            lens=lens,
            layer_lens=layer_lens,
            missing=missing,
        )

    def _added(self, index: int, before: Vector, after: Vector) -> Added | None:
        """Return what the blocks of a layer return; None if it is off, or has no two blocks as wide as the residual."""
        if _same(before, after):
            return None
        calls = [call for call in self._children[index] if call.returned is not None]
        end = next((i for i, call in enumerate(calls) if attends(call.module)), None)
        if end is None or end + 1 >= len(calls):
            return None
        while end + 1 < len(calls) and _same(calls[end + 1].given, calls[end].returned):
            end += 1
        added, last = calls[end].returned, calls[-1].returned
        reads = calls[end + 1].given if end + 1 < len(calls) else None
        if added is None or last is None or reads is None or added.shape != before.shape or last.shape != before.shape:
            return None
        return Added(added, last, reads)

    def _factor(self, layers: list[tuple[Vector, Vector, Added]]) -> float:
        """Return what the model multiplies each block's output by, given each layer's `before`, `after` and blocks."""
        fitted = []
        for before, after, added in layers:
            both = added.attention + added.ffn
            if not self._close(before + both, after):
                fitted.append(float((after - before) @ both / (both @ both).clamp_min(1e-12)))
        return median(fitted) if fitted else 1

    def _parts(
        self, before: Vector, after: Vector, added: Added, factor: float
    ) -> tuple[dict[str, Vector], bool] | None:
        """Return what a layer adds, and whether both blocks read `before`; None if the sum is not what it returns."""
        attention, ffn = added.attention * factor, added.ffn * factor
        between = before + attention
        if not self._close(between + ffn, after):
            return None
        return {"attention": attention, "between": between, "ffn": ffn}, not self._close(added.reads, between)

    def _inputs(self, missing: list[MissingPart]) -> dict[str, Vector]:
        """Return what the blocks of the chosen layer read, and the hidden activation of the feed-forward block."""
        calls = self._children[self._chosen]
        attention = next((call for call in calls if attends(call.module)), None)
        found = {"attention_in": attention.given if attention else None}
        inside = set(attention.module.modules()) if attention else set()
        matrices = [call for call in self._inner if call.module not in inside]
        if self._model.facts.num_experts:
            missing.append("experts")
        elif len(matrices) < 2:
            missing.append("matrices")
        else:
            found |= {"ffn_in": matrices[0].given, "hidden": matrices[-1].given}
        return {name: vector for name, vector in found.items() if vector is not None}

    def _lens(self, logits: Tensor, missing: list[MissingPart]) -> tuple[list[list[Candidate]], list[list[Candidate]]]:
        """Return the lens of every layer at the last position, and of the chosen layer at the last `count` ones."""
        residuals = [self._begins[0], *(call.returned for call in self._whole)] if self._whole else []
        chain = [call.module for call in self._tail]
        if not chain or not residuals or self._residuals is None or any(one is None for one in residuals):
            missing.append("head")
            return [], []
        cap = getattr(self._model.module.config.get_text_config(), "final_logit_softcapping", None)
        scale: Tensor | float = 1.0

        def read(rows: Tensor) -> Tensor:
            rows = rows.to(self._model.dtype)
            for module in chain:
                rows = module(rows)
            return cap * torch.tanh(rows.float() / cap) if cap else rows.float() * scale

        found = read(torch.stack([one for one in residuals if one is not None]))
        last = found[-1]
        if not cap and last.shape == logits.shape and not self._close(last, logits):
            scale = (last @ logits) / (last @ last)  # some families multiply logits by a constant
            found = found * scale
        if not self._close(found[-1], logits):
            missing.append("logits")
            return [], []
        after = [self._top(read(rows)) for rows in torch.split(self._residuals, LENS_ROWS)]
        return self._top(found), [one for part in after for one in part]

    def _top(self, logits: Tensor) -> list[list[Candidate]]:
        """Return the most probable tokens of each row of `logits` [n, V]."""
        values, ids = logits.log_softmax(-1).topk(min(LENS_TOKENS, logits.shape[1]))
        tokenizer = self._model.tokenizer
        return [
            [Candidate(i, tokenizer.token_bytes(i) if tokenizer else b"", p) for i, p in zip(*of_row, strict=True)]
            for of_row in zip(ids.tolist(), values.tolist(), strict=True)
        ]

    def _close(self, one: Tensor, other: Tensor) -> bool:
        if one.shape != other.shape:
            return False
        return bool((one - other).abs().max() <= self._tolerance * other.abs().max().clamp_min(1e-6))


def _has_matrix(module: nn.Module) -> bool:
    return any(one.dim() >= 2 for one in (*module.parameters(recurse=False), *module.buffers(recurse=False)))


def _outside(module: nn.Module, layers: list[nn.Module]) -> list[nn.Module]:
    """Return the topmost modules that hold no decoder layer and are in none."""
    held = set(layers)
    found: list[nn.Module] = []
    for child in module.children():
        parts = set(child.modules())
        if child in held:
            continue
        found += _outside(child, layers) if parts & held else [child]
    return found


def _last(value: Any) -> Vector | None:
    """Return the last token's row of the first floating-point tensor, a copy."""
    rows = _rows(value, 1)
    return None if rows is None else rows[-1]


def _rows(value: Any, count: int) -> Tensor | None:
    """Return the last `count` tokens' rows of the first floating-point tensor, a float32 copy."""
    if isinstance(value, Tensor):
        if not value.is_floating_point() or value.dim() < 2:
            return None
        return value.reshape(-1, value.shape[-1])[-count:].to(torch.float32, copy=True)
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return next((found for one in values if (found := _rows(one, count)) is not None), None)


def _same(one: Vector | None, other: Vector | None) -> bool:
    return one is not None and other is not None and torch.equal(one, other)
