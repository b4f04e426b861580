"""Step times of GPUs that are not here, from what their layers were measured to take (`layer_times.toml`).

    seconds of a step  =  L · (m(n) + 2 · a(n))  +  o  +  r · sequences  +  k · keys  +  q · pairs

m: a layer's matrices, norms and activations at n tokens; a: one all-reduce between the GPUs of a layer, of which there
are two; both measured. The rest is the roofline's: o, the bytes of the output projection over the bandwidth, and r, its
operations for the one row of a sequence over the peak; k, a key and a value of all layers over the bandwidth; q, the
operations of a query and a key over the peak. What the host does between two steps is no part of it.
"""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec
from msgspec import Struct

from engine.accounting.memory import stored_bytes_per_token
from engine.accounting.presets import GpuPreset, ModelPreset, gpu_presets, model_presets
from engine.simulate.cost import Linear

FILE = Path(__file__).with_name("layer_times.toml")
ALL_REDUCES = 2  # of a layer: after attention and after the MLP


class LayerTimes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One layer on one of `tensor_parallel` GPUs, at each number of tokens of a step."""

    gpu: str
    model: str
    tensor_parallel: int
    tokens: list[int]
    milliseconds: list[float]
    all_reduce: list[float] = []  # milliseconds of one, between the GPUs; empty: there is one GPU
    layers_of: str = ""  # nobody measured this model's: another's stand in, their times multiplied by `scaled`
    scaled: float = 1.0


class LayerFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of them, with who measured them."""

    source: str
    licence: str
    layer: list[LayerTimes]


@functools.cache
def layer_file() -> LayerFile:
    """As it is shipped."""
    return msgspec.toml.decode(FILE.read_bytes(), type=LayerFile)


def measured_degrees(model: str, gpu: str) -> list[int]:
    """Numbers of GPUs that a layer of this model was measured on; none: it never was."""
    return sorted(one.tensor_parallel for one in layer_file().layer if (one.model, one.gpu) == (model, gpu))


def measured_gpus(model: str) -> list[str]:
    """Ids of the cards that a layer of this model was measured on, each once."""
    return list(dict.fromkeys(one.gpu for one in layer_file().layer if one.model == model))


def on_gpus(model: str, gpu: str, tensor_parallel: int = 1) -> Linear:
    """What a step takes there.

    Raises:
        ValueError: nobody measured that.
    """
    found = next(
        (
            one
            for one in layer_file().layer
            if (one.model, one.gpu, one.tensor_parallel) == (model, gpu, tensor_parallel)
        ),
        None,
    )
    if found is None:
        degrees = ", ".join(str(one) for one in measured_degrees(model, gpu))
        others = ", ".join(measured_gpus(model))
        known = f"; measured were {degrees} GPUs" if degrees else f"; there are some on {others}" if others else ""
        raise ValueError(f"no layer times of {model} on {tensor_parallel} × {gpu}{known}")
    preset = next(one for one in model_presets() if one.id == model)
    return _linear(found, preset, next(one for one in gpu_presets() if one.id == gpu))


def _linear(layer: LayerTimes, model: ModelPreset, gpu: GpuPreset) -> Linear:
    tp = layer.tensor_parallel
    exchanges = layer.all_reduce or [0.0] * len(layer.tokens)
    peak, width = gpu.fp16_flops_per_second * tp, gpu.bytes_per_second * tp
    projection = model.vocab_size * model.hidden_size
    output = projection * model.element_bytes / width  # its matrix is read once a step
    layers = [
        model.num_layers * (matrices + ALL_REDUCES * exchange) / 1000 + output
        for matrices, exchange in zip(layer.milliseconds, exchanges, strict=True)
    ]
    whose = f"{layer.layers_of} × {layer.scaled:g} in place of {model.name}'s" if layer.layers_of else model.name
    kv_bytes = stored_bytes_per_token(model) / min(1, model.num_kv_heads / tp)  # a head is on one GPU at least
    return Linear(
        token_knots=layer.tokens,
        token_seconds=layers,
        seq_seconds=2 * projection / peak,  # the output projection is of one row for each sequence
        key_seconds=kv_bytes / width,
        pair_seconds=2 * model.num_layers * model.num_heads * (model.head_dim + model.v_head_dim) / peak,
        source=f"layers of {whose} on {tp} × {gpu.name} ({layer_file().source}), attention by the roofline",
    )
