"""Step times on other GPUs, from measured layer times (`layer_times.toml`).

    seconds of a step  =  L · (m(n) + 2 · a(n))  +  o  +  r · sequences  +  k · keys  +  q · pairs

Measured: m, time of a layer's matrices, norms and activations at n tokens; a, time of one of the two all-reduces per
layer. By the roofline: o, bytes of the output projection / bandwidth; r, operations of the output projection for one
sequence / peak; k, bytes of a key and a value in all layers / bandwidth; q, operations of a query and a key / peak.
Host time between steps is not included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.accounting.layer_times import LayerTimes
from engine.accounting.memory import stored_bytes_per_token
from engine.accounting.presets import GpuPreset, ModelPreset, Presets, presets
from engine.accounting.token_capacity import room_tokens
from engine.simulate.cost import Linear

ALL_REDUCES = 2  # per layer: after attention and after the MLP


class Card(NamedTuple):
    """A model on one kind of GPU. `layers`: all measured layer times, of any model and GPU."""

    model: ModelPreset
    gpu: GpuPreset
    layers: Sequence[LayerTimes]

    @property
    def degrees(self) -> list[int]:
        """Numbers of GPUs on which a layer of this model was measured."""
        return sorted(self._measured)

    @property
    def measured_on(self) -> list[str]:
        """Ids of the GPUs on which a layer of this model was measured."""
        return list(dict.fromkeys(one.gpu for one in self.layers if one.model == self.model.id))

    @property
    def source(self) -> str:
        return "; ".join(dict.fromkeys(one.source for one in self._measured.values() if one.source))

    def cost(self, tensor_parallel: int = 1, kv_cache_dtype: str = "auto") -> Linear:
        """Return the cost model of a step.

        Raises:
            ValueError: no layers were measured with that number of GPUs.
        """
        measured = self._measured
        if tensor_parallel in measured:
            return _linear(measured[tensor_parallel], self.model, self.gpu, kv_cache_dtype)
        degrees, others = ", ".join(map(str, self.degrees)), ", ".join(self.measured_on)
        known = f"; measured were {degrees} GPUs" if degrees else f"; measured on {others}" if others else ""
        raise ValueError(f"no layer times of {self.model.id} on {tensor_parallel} × {self.gpu.id}{known}")

    def room_tokens(self, tensor_parallel: int = 1, stages: int = 1, **more: Any) -> int:
        """Return the token capacity (`engine.accounting.token_capacity`)."""
        return room_tokens(self.model, self.gpu, tensor_parallel, stages, **more)

    @property
    def _measured(self) -> dict[int, LayerTimes]:
        wanted = self.model.id, self.gpu.id
        return {one.tensor_parallel: one for one in self.layers if (one.model, one.gpu) == wanted}


def card_of(model: str, gpu: str, known: Presets | None = None) -> Card:
    """Return the model and GPU with these ids.

    Raises:
        KeyError: unknown model or GPU.
    """
    known = known or presets()
    return Card(known.models[model], known.gpus[gpu], known.layers)


def _linear(layer: LayerTimes, model: ModelPreset, gpu: GpuPreset, kv_cache_dtype: str) -> Linear:
    tp = layer.tensor_parallel
    exchanges = layer.all_reduce or [0.0] * len(layer.tokens)
    peak, width = gpu.fp16_flops_per_second * tp, gpu.bytes_per_second * tp
    projection = model.vocab_size * model.hidden_size
    output = projection * model.element_bytes / width  # the matrix is read once per step
    layers = [
        model.num_layers * (matrices + ALL_REDUCES * exchange) / 1000 + output
        for matrices, exchange in zip(layer.milliseconds, exchanges, strict=True)
    ]
    measured = f"{layer.layers_of} × {layer.scaled:g} in place of {model.name}'s" if layer.layers_of else model.name
    share = min(1, model.num_kv_heads / tp)  # a KV head is at least on one GPU
    kv_bytes = stored_bytes_per_token(model, kv_cache_dtype) / share
    return Linear(
        token_knots=layer.tokens,
        token_seconds=layers,
        seq_seconds=2 * projection / peak,  # the output projection has one row per sequence
        key_seconds=kv_bytes / width,
        pair_seconds=2 * model.num_layers * model.num_heads * (model.head_dim + model.v_head_dim) / peak,
        source=f"layers of {measured} on {tp} × {gpu.name} ({layer.source}), attention by the roofline",
    )
