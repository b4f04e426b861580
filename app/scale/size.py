"""`GET` and `POST /api/scale/size`: memory of a model under a load, on each GPU and over each link.

The model is a preset in the URL, or a posted config.json.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from flask import Request, Response

from app.ground.errors import AppError
from app.ground.routing import json_answer
from app.scale.bounds import MAX_COUNT
from engine.accounting.cited import cited_facts
from engine.accounting.derived import Derived
from engine.accounting.impossible import ImpossibleInput, impossible
from engine.accounting.kv_shape import Architecture
from engine.accounting.layer_bytes import CacheBytes
from engine.accounting.memory import stored_element
from engine.accounting.mistakes import mistakes
from engine.accounting.presets import GpuPreset, LinkPreset, ModelPreset, Presets, presets
from engine.accounting.ranks import ranks_of
from engine.accounting.size import Cost, Load, Stored
from engine.accounting.sources import OF_MODELS
from engine.accounting.weights import WEIGHT_DTYPES, served_in

AUTO = "auto"
KV_DTYPES = (AUTO, "float16", "bfloat16", "fp8", "int8", "int4")
SHIPPED = WEIGHT_DTYPES[0]
T = TypeVar("T")
MAX_CONFIG = 256 * 1024  # bytes of a posted config.json
CURVE = 9  # number of contexts of the plot: max_model_len, its half, its quarter, ...
OWN = "presets"  # folder of a user's own presets in a data directory
_counting = threading.Lock()  # at most one model on the meta device


def size(own: Sequence[Path], request: Request) -> Response:
    """Return the sizes of a preset, and the choices of the settings."""
    try:
        return json_answer(answer(request.args, presets(own)))
    except ImpossibleInput as error:
        raise AppError("bad_request", str(error), translations=error.translations) from error


def size_of_config(own: Sequence[Path], request: Request) -> Response:
    """Return the sizes of the model whose config.json is the request's body."""
    request.max_content_length = MAX_CONFIG + 1
    try:
        if (request.content_length or 0) > MAX_CONFIG:
            raise impossible("config_size", most=MAX_CONFIG, size=request.content_length or 0)
        return json_answer(answer(request.args, presets(own), _counted(request.get_data(cache=False))))
    except ImpossibleInput as error:
        raise AppError("bad_request", str(error), translations=error.translations) from error


@functools.lru_cache(maxsize=16)
def _counted(text: bytes) -> Architecture:
    from engine.setup.unloaded_model import architecture_from  # lazy: imports torch

    with _counting:
        return architecture_from(text, "config.json")


def own_presets(data_dir: Path | None, file: Path | None = None) -> list[Path]:
    """Return the files of a user's own presets: those in the folder `presets` of the data directory, and `file`."""
    found = sorted((data_dir / OWN).glob("*.toml")) if data_dir is not None else []
    return [*found, file] if file is not None else found


def answer(query: Mapping[str, str], known: Presets, model: Architecture | None = None) -> dict[str, Any]:
    """Return the response. `sizes`: numbers of the model; `ranks`: heads of each GPU; `held`: shares of allocated
    memory in use; `cited`: published measurements; `gpus`, `links`: numbers of each; `curve`: requests that fit on a
    GPU by context; `mistakes`: common mistakes by number; `models`, `kv_dtypes`, ...: choices.

    `model`: the model, if it is not a preset.

    Raises:
        ImpossibleInput: an input is invalid.
    """
    preset: ModelPreset | None = None
    if model is None:
        preset = _one("model", query.get("model", "llama-3.1-8b"), known.models)
        model = preset.architecture
    kv_dtype = _one("kv_dtype", query.get("kv_dtype", AUTO), {name: name for name in KV_DTYPES})
    dtype = _one("dtype", query.get("dtype", SHIPPED), {name: name for name in WEIGHT_DTYPES})
    element, scales = (model.element or 2, 0) if kv_dtype == AUTO else stored_element(kv_dtype)
    weights = model.shipped if dtype == SHIPPED else served_in(dtype, model.embedding_params)
    stored = Stored(weights=weights, element=element, scales=scales)
    cost = Cost(model, stored, _load(query))
    gpu = _one("gpu", query.get("gpu", "a100-80gb"), known.gpus)
    return {
        "model": _model(preset, model),
        "load": cost.load,
        "has_cross": cost.cache.has_cross,
        "sizes": cost.numbers,
        "held": cost.used_shares(),
        "cited": cited_facts(),
        "moved": cost.transferred(),
        "ranks": ranks_of(model, cost.load.tensor_parallel),
        "mistakes": mistakes(cost, _namesake(preset, known, stored, cost.load)),
        "gpus": [_gpu(one, cost.capacity(one.room_bytes)) for one in known.gpus.values()],
        "links": [_link(one, cost) for one in known.links.values()],
        "gpu": gpu.id,
        "curve": curve(cost, gpu.room_bytes),
        "models": [{"id": one.id, "name": one.name} for one in known.models.values()],
        "kv_dtypes": KV_DTYPES,
        "dtypes": WEIGHT_DTYPES,
    }


def curve(cost: Cost, memory_bytes: int) -> list[dict[str, int]]:
    """Return the number of requests that fit on a GPU by context: reserved, paged, paged with a shared prefix."""
    contexts = [cost.load.max_model_len >> power for power in range(CURVE)]
    found = []
    for context in sorted({one for one in contexts if one > cost.load.shared_prefix}):
        load = Load(**{**_fields(cost.load), "context": context})
        numbers = {one.id: int(one.value) for one in Cost(cost.model, cost.stored, load).capacity(memory_bytes)}
        found.append({"context": context, **{name: numbers[name] for name in CURVES if name in numbers}})
    return found


CURVES = ("reserved", "paged", "shared")


def _fields(load: Load) -> dict[str, Any]:
    return {name: getattr(load, name) for name in load.__struct_fields__}


def _model(preset: ModelPreset | None, chosen: Architecture) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": chosen.name, "num_params": chosen.num_params, "max_position": chosen.max_position}
    facts |= {"num_active_params": chosen.num_active_params, "unread": chosen.unread}
    layers = [{"kind": shape.kind, "num_layers": shape.num_layers} for shape in chosen.shapes]
    if preset is None:
        return {**facts, "id": "", "sources": [], "layers": layers}
    return {**facts, "id": preset.id, "sources": preset.source_facts(OF_MODELS), "layers": layers}


def _namesake(preset: ModelPreset | None, known: Presets, stored: Stored, load: Load) -> Derived | None:
    if preset is None or preset.mistaken_for not in known.models:
        return None
    other = known.models[preset.mistaken_for]
    return CacheBytes(other.shapes, stored.element, stored.scales, load.tensor_parallel).token


def _gpu(gpu: GpuPreset, numbers: list[Derived]) -> dict[str, Any]:
    facts = {"id": gpu.id, "name": gpu.name, "announced": gpu.announced}
    memory = {"memory_bytes": gpu.memory_bytes, "room_bytes": gpu.room_bytes}
    return {**facts, **memory, "sources": gpu.source_facts({"gpu_memory": gpu.room_figure}), "numbers": numbers}


def _link(link: LinkPreset, cost: Cost) -> dict[str, Any]:
    sources = link.source_facts({"link_rate": "bytes_per_second", "link_rate_both": "bytes_per_second"})
    facts = {"id": link.id, "name": link.name, "announced": link.announced, "sources": sources}
    found = {**facts, "bytes_per_second": link.bytes_per_second}
    numbers = cost.transfer_over(link.bytes_per_second, link.both_directions)
    wrong = cost.transfer_over(link.bytes_per_second)[0] if link.both_directions else None
    return {**found, "both_directions": link.both_directions, "numbers": numbers, "wrong": wrong}


def _one(name: str, value: str, known: Mapping[str, T]) -> T:
    if value not in known:
        raise impossible("unknown", name=name, asked=value[:40], known=", ".join(known))
    return known[value]


def _load(query: Mapping[str, str]) -> Load:
    """Parse the requested load.

    Raises:
        ImpossibleInput: a field is not a number, or too large.
    """
    fields: dict[str, Any] = {}
    for name in Load.__struct_fields__:
        if name not in query:
            continue
        is_whole = isinstance(getattr(Load(), name), int)
        try:
            value = float(query[name])
        except ValueError:
            raise impossible("no_number", name=name, asked=query[name][:40]) from None
        if not abs(value) <= MAX_COUNT:
            raise impossible("too_large", name=name)
        if is_whole and value != int(value):
            raise impossible("no_whole", name=name, asked=f"{value:g}")
        fields[name] = int(value) if is_whole else value
    if "max_model_len" not in fields:  # a longer context raises the default
        fields["max_model_len"] = max(Load().max_model_len, fields.get("context", 0))
    return Load(**fields)
