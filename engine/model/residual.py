"""Residual stream of one position, observed by hooks in a pass without the cache (`recompute`), and its logit lens.

    before -> norm -> attention -> + -> between -> norm -> feed-forward -> + -> after          each decoder layer

The method works for any model family. Hooks record each direct child of a layer in execution order, with the last
token's input and output. Attention's contribution is the output of the child that contains attention, or of children
after it that read only that output (a norm, dropout). The feed-forward block's contribution is the output of the last
child. If `before` plus both does not equal the layer's output, the layer is reported without parts. Some models
multiply the contributions by a constant, which is fitted to the layers whose plain sum does not match. The modules that
run after the last layer are the final norm and the output head; applied to the last residual, they must return the
pass's logits.

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
TOLERANCES = {torch.float32: 1e-4}  # relative to the largest number of a sum; in half precision every addition rounds
HALF_TOLERANCE = 0.03
PARTS = ("before", "attention", "between", "ffn", "after")

Vector = Tensor  # [n] float32


class Call(NamedTuple):
    """Call of a module, with the last token's input and output."""

    module: nn.Module
    input: Vector | None
    output: Vector | None


class Contributions(NamedTuple):
    """Outputs of the two blocks of a layer, and the input of the feed-forward block."""

    attention: Vector
    ffn: Vector
    ffn_input: Vector


class ResidualWatch:
    """Hooks of one pass."""

    def __init__(self, model: LoadedModel, layer: int, count: int = 1) -> None:
        """`layer`: layer whose vectors are recorded, and its output for `count` last tokens. All layers have keys."""
        self._model = model
        self._layers = decoder_layers(model.module)
        self._chosen, self._count = layer, count
        self._residuals: Tensor | None = None  # [count, n] after the chosen layer
        self._layer_calls: list[Call] = []
        self._children: list[list[Call]] = [[] for _ in self._layers]
        self._inner: list[Call] = []  # modules with weights in the chosen layer
        self._tail: list[Call] = []  # modules after the last layer
        self._tolerance = TOLERANCES.get(model.dtype, HALF_TOLERANCE)

    @contextmanager
    def watching(self, context: Context) -> Iterator[None]:
        """Record the calls of this thread for the step of `context`; other threads may run the same modules."""
        with ExitStack() as hooks:

            def watch(module: nn.Module, calls: list[Call], after: int = 0) -> None:
                def note(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
                    if current() is context and len(self._layer_calls) >= after:
                        calls.append(Call(module, _last(args) if args else _last(kwargs), _last(output)))

                hooks.callback(module.register_forward_hook(note, with_kwargs=True).remove)

            def save_input(_module: nn.Module, args: Any, kwargs: Any) -> None:
                if current() is context:
                    self._inputs.append(_last(args) if args else _last(kwargs))

            def save_output(_module: nn.Module, _args: Any, output: Any) -> None:
                if current() is context:
                    self._residuals = _rows(output, self._count)

            self._inputs: list[Vector | None] = []  # saved before a layer may write into its input
            for layer, calls in zip(self._layers, self._children, strict=True):
                hooks.callback(layer.register_forward_pre_hook(save_input, with_kwargs=True).remove)
                watch(layer, self._layer_calls)
                for child in layer.children():
                    watch(child, calls)
            if self._layers:
                hooks.callback(self._layers[self._chosen].register_forward_hook(save_output).remove)
                for module in self._layers[self._chosen].modules():
                    if _has_matrix(module):
                        watch(module, self._inner)
            for module in _outside(self._model.module, self._layers):
                watch(module, self._tail, len(self._layers))
            yield

    def result(self, logits: Tensor, position: int) -> ResidualStream:
        """Return the recorded vectors that agree with the layers' outputs and the pass's logits [V]."""
        missing: list[MissingPart] = []
        vectors: dict[str, Vector] = {}
        norms = np.zeros((len(self._layers), len(PARTS)), np.float32)
        is_parallel, lacks_parts = False, False
        passed = [
            (index, before, call.output, self._contributions(index, before, call.output))
            for index, (call, before) in enumerate(zip(self._layer_calls, self._inputs, strict=True))
            if before is not None and call.output is not None
        ]
        factor = self._factor([(before, after, added) for _, before, after, added in passed if added])
        for index, before, after, added in passed:
            found = {"before": before, "after": after}
            parts = self._parts(before, after, added, factor) if added else None
            if parts is None:
                lacks_parts = True
            else:
                found |= parts[0]
            norms[index] = [float(found[name].norm()) if name in found else 0 for name in PARTS]
            if index == self._chosen:
                is_parallel = parts is not None and parts[1]
                vectors |= found | self._block_inputs(missing)
            if index == 0:
                vectors["embedding"] = before
        if lacks_parts:
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

    def _contributions(self, index: int, before: Vector, after: Vector) -> Contributions | None:
        """Return the outputs of a layer's blocks; None if it is off, or lacks two blocks as wide as the residual."""
        if _same(before, after):
            return None
        calls = [call for call in self._children[index] if call.output is not None]
        end = next((i for i, call in enumerate(calls) if attends(call.module)), None)
        if end is None or end + 1 >= len(calls):
            return None
        while end + 1 < len(calls) and _same(calls[end + 1].input, calls[end].output):
            end += 1
        added, last = calls[end].output, calls[-1].output
        ffn_input = calls[end + 1].input if end + 1 < len(calls) else None
        if added is None or last is None or ffn_input is None:
            return None
        return Contributions(added, last, ffn_input) if added.shape == before.shape == last.shape else None

    def _factor(self, layers: list[tuple[Vector, Vector, Contributions]]) -> float:
        """Return the constant by which the model multiplies each block's output. `layers`: before, after, blocks."""
        fitted = []
        for before, after, added in layers:
            both = added.attention + added.ffn
            if not self._close(before + both, after):
                fitted.append(float((after - before) @ both / (both @ both).clamp_min(1e-12)))
        return median(fitted) if fitted else 1

    def _parts(
        self, before: Vector, after: Vector, added: Contributions, factor: float
    ) -> tuple[dict[str, Vector], bool] | None:
        """Return a layer's parts, and whether both blocks read `before`; None if the sum is not the layer's output."""
        attention, ffn = added.attention * factor, added.ffn * factor
        between = before + attention
        if not self._close(between + ffn, after):
            return None
        return {"attention": attention, "between": between, "ffn": ffn}, not self._close(added.ffn_input, between)

    def _block_inputs(self, missing: list[MissingPart]) -> dict[str, Vector]:
        """Return the inputs of the chosen layer's blocks, and the hidden activation of its feed-forward block."""
        calls = self._children[self._chosen]
        attention = next((call for call in calls if attends(call.module)), None)
        found = {"attention_in": attention.input if attention else None}
        inside = set(attention.module.modules()) if attention else set()
        matrices = [call for call in self._inner if call.module not in inside]
        if self._model.facts.num_experts:
            missing.append("experts")
        elif len(matrices) < 2:
            missing.append("matrices")
        else:
            found |= {"ffn_in": matrices[0].input, "hidden": matrices[-1].input}
        return {name: vector for name, vector in found.items() if vector is not None}

    def _lens(self, logits: Tensor, missing: list[MissingPart]) -> tuple[list[list[Candidate]], list[list[Candidate]]]:
        """Return the lens of every layer at the last position, and of the chosen layer at the last `count` ones."""
        calls = self._layer_calls
        residuals = [self._inputs[0], *(call.output for call in calls)] if calls else []
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
            scale = (last @ logits) / (last @ last)  # some models multiply logits by a constant
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
    """Return the topmost modules that neither contain a decoder layer nor are part of one."""
    decoders = set(layers)
    found: list[nn.Module] = []
    for child in module.children():
        parts = set(child.modules())
        if child in decoders:
            continue
        found += _outside(child, layers) if parts & decoders else [child]
    return found


def _last(value: Any) -> Vector | None:
    """Return a copy of the last token's row of the first floating-point tensor."""
    rows = _rows(value, 1)
    return None if rows is None else rows[-1]


def _rows(value: Any, count: int) -> Tensor | None:
    """Return a float32 copy of the last `count` tokens' rows of the first floating-point tensor."""
    if isinstance(value, Tensor):
        if not value.is_floating_point() or value.dim() < 2:
            return None
        return value.reshape(-1, value.shape[-1])[-count:].to(torch.float32, copy=True)
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return next((found for one in values if (found := _rows(one, count)) is not None), None)


def _same(one: Vector | None, other: Vector | None) -> bool:
    return one is not None and other is not None and torch.equal(one, other)
