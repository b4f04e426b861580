"""`GET /api/scale/size`: what a model costs under a load, on each GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from flask import Request, Response

from app.errors import AppError
from app.routing import json_answer
from engine.accounting.derived import Derived
from engine.accounting.memory import bytes_per_element, stored_element
from engine.accounting.presets import GpuPreset, ModelPreset, gpu_presets, model_presets
from engine.accounting.size import KvShape, Load, fits, kv_token, sizes

KV_DTYPES = ("float16", "bfloat16", "fp8", "int8", "int4")
WEIGHT_DTYPES = ("float32", "float16", "bfloat16", "int8", "int4")
MOST = 1 << 40  # of a count: more is a slip of the hand


def size(here: object, request: Request) -> Response:
    """The sizes, with the choices that there are."""
    try:
        return json_answer(answer(request.args))
    except ValueError as error:
        raise AppError("bad_request", str(error)) from error


def answer(asked: Mapping[str, str]) -> dict[str, Any]:
    """`sizes`: numbers of the model; `gpus`: of each card its numbers; `models`, `kv_dtypes`, ...: what may be chosen.

    Raises:
        ValueError: an input is not one, or its numbers cannot be.
    """
    preset = _one("model", asked.get("model", "llama-3.1-8b"), {one.id: one for one in model_presets()})
    stored = _one("kv_dtype", asked.get("kv_dtype", "float16"), {name: stored_element(name) for name in KV_DTYPES})
    weight = _one("dtype", asked.get("dtype", "float16"), {name: bytes_per_element(name) for name in WEIGHT_DTYPES})
    load = _load(asked)
    element, scales = stored
    token = kv_token(_shape(preset), element, scales, tensor_parallel=load.tensor_parallel)
    numbers = sizes(token, preset.num_params, weight, load)
    weights = next(one for one in numbers if one.id == "weights")
    return {
        "model": {"id": preset.id, "name": preset.name, "source": preset.source, "dated": preset.dated.isoformat()},
        "load": load,
        "sizes": numbers,
        "gpus": [_on(gpu, fits(token, weights, gpu.memory_bytes, load)) for gpu in gpu_presets()],
        "models": [{"id": one.id, "name": one.name} for one in model_presets()],
        "kv_dtypes": KV_DTYPES,
        "dtypes": WEIGHT_DTYPES,
    }


def _shape(preset: ModelPreset) -> KvShape:
    return KvShape(preset.num_layers, preset.num_kv_heads, preset.head_dim, preset.head_dim, preset.latent_dim)


def _on(gpu: GpuPreset, numbers: list[Derived]) -> dict[str, Any]:
    given = {"id": gpu.id, "name": gpu.name, "source": gpu.source, "announced": gpu.announced.isoformat()}
    return {**given, "memory_bytes": gpu.memory_bytes, "numbers": numbers}


def _one(name: str, asked: str, known: Mapping[str, Any]) -> Any:
    if asked not in known:
        raise ValueError(f"{name} {asked[:40]!r} is unknown; use one of {', '.join(known)}")
    return known[asked]


def _load(asked: Mapping[str, str]) -> Load:
    given = {name: asked[name] for name in Load.__struct_fields__ if name in asked}
    try:
        load = msgspec.convert(given, Load, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"an input is not a number: {error}") from None
    for name in given:
        if not abs(getattr(load, name)) <= MOST:
            raise ValueError(f"{name} is too large to be meant")
    return load
