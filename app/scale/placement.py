"""Section "Placement" of /scale: GPUs for a demand, with prefill and decode on separate or the same GPUs, and their
simulation.

All numbers are computed by `engine.simulate`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypedDict, TypeVar

from flask import Request, Response

from app.ground.routing import json_answer
from app.scale.bounds import PLACEMENT
from app.scale.request import ListOption, Query, parse_float, parse_int, refusal, refused, with_own_presets
from engine.accounting.derived import Derived
from engine.accounting.presets import GpuPreset, ModelPreset, Presets, presets
from engine.simulate.instance_options import Demand, Nodes, PlacementError
from engine.simulate.layers import Card
from engine.simulate.placed import Tried, simulate_placement
from engine.simulate.placement import Placement, colocated, disaggregated, on_one_node
from engine.simulate.placement_numbers import placement_numbers
from engine.trace.applications import TABLE

Preset = TypeVar("Preset", ModelPreset, GpuPreset)
Way = Literal["apart", "on_one_node", "together"]
SOURCE = "DistServe, arXiv 2401.09670 v3"
REQUESTS = 300  # requests of a simulation
MAX_OUTPUT, MAX_PROMPT = 60_000, 600_000  # total tokens of a simulation, which takes a few seconds on one core
MAX_INSTANCES = 16
trying = threading.Lock()  # one simulation at a time, since it occupies a core


class Found(TypedDict):
    """Placement of one of the three kinds."""

    way: Way
    placement: Placement | None
    numbers: list[Derived]  # its numbers with formulas
    refused: dict[str, str] | None  # why there is no placement, by language


class PlacementAnswer(TypedDict):
    """Response of /api/scale/placement."""

    models: list[ListOption]
    gpus: list[ListOption]
    asked: Demand
    ways: list[Found]
    source: str
    times_source: str  # source of the layer times


class TriedAnswer(TypedDict):
    """Response of /api/scale/tried: a simulated placement."""

    way: Way
    tried: Tried


class Settings(TypedDict):
    """Parameters of the URL."""

    cards: tuple[Card, Card]  # for prefill and for decode
    nodes: Nodes
    demand: Demand


def answer(query: Query, known: Presets | None = None) -> PlacementAnswer:
    """Return the three placements for these settings.

    Raises:
        AppError: an invalid setting.
    """
    known = known or presets()
    settings = read(query, known)
    return {
        "models": [{"id": one.id, "name": one.name} for one in known.timed_models],
        "gpus": [{"id": one.id, "name": one.name} for one in known.timed_gpus],
        "asked": settings["demand"],
        "ways": [_found(way, settings) for way in _WAYS],
        "source": SOURCE,
        "times_source": "; ".join(dict.fromkeys(card.source for card in settings["cards"] if card.source)),
    }


def tried_answer(query: Query, known: Presets | None = None) -> TriedAnswer:
    """Simulate a placement for these settings with the engine's scheduler.

    Raises:
        AppError: an invalid setting, or the placement cannot be simulated.
    """
    settings = read(query, known or presets())
    way: Way = next((one for one in _WAYS if one == query.get("way")), "apart")
    demand = settings["demand"]
    number = min(REQUESTS, MAX_OUTPUT // demand.output_tokens, MAX_PROMPT // demand.prompt_tokens)
    if not trying.acquire(blocking=False):
        raise refusal("trying", "busy")
    try:
        found = _WAYS[way](settings)
        instances = sum(option.replicas * option.stages for option in found.options)
        if instances > MAX_INSTANCES:
            raise refusal("most_instances", "refused", number=instances, most=MAX_INSTANCES)
        return {"way": way, "tried": simulate_placement(settings["cards"], found, demand, settings["nodes"], number)}
    except ValueError as error:
        raise refused(error) from error
    finally:
        trying.release()


def read(query: Query, known: Presets) -> Settings:
    """Parse the settings of a URL.

    Raises:
        AppError: an invalid setting.
    """
    chat, gpus = TABLE[0], known.timed_gpus
    model = _one("model", query, known.timed_models)
    return {
        "cards": (
            Card(model, _one("prefill_gpu", query, gpus), known.layers),
            Card(model, _one("decode_gpu", query, gpus), known.layers),
        ),
        "nodes": Nodes(
            number=parse_int(query, "nodes", 4, PLACEMENT["nodes"]),
            gpus=parse_int(query, "node_gpus", 8, PLACEMENT["node_gpus"]),
            network=parse_float(query, "network", 25.0, PLACEMENT["network"]) * 1e9,
        ),
        "demand": Demand(
            rate=parse_float(query, "rate", 10.0, PLACEMENT["rate"]),
            prompt_tokens=parse_int(query, "prompt_tokens", 512, PLACEMENT["prompt_tokens"], model.max_position - 1),
            output_tokens=parse_int(query, "output_tokens", 128, PLACEMENT["output_tokens"]),
            ttft=parse_float(query, "ttft", chat.ttft, PLACEMENT["ttft"]),
            tpot=parse_float(query, "tpot", chat.tpot, PLACEMENT["tpot"]),
            share=parse_float(query, "share", 0.9, PLACEMENT["share"]),
        ),
    }


_WAYS: dict[Way, Callable[[Settings], Placement]] = {
    "apart": lambda one: disaggregated(one["cards"], one["nodes"], one["demand"]),
    "on_one_node": lambda one: on_one_node(one["cards"], one["nodes"], one["demand"]),
    "together": lambda one: colocated(one["cards"][1], one["nodes"], one["demand"]),
}


def _found(way: Way, settings: Settings) -> Found:
    try:
        found = _WAYS[way](settings)
        numbers = placement_numbers(found, settings["cards"][1].model, settings["nodes"], settings["demand"])
        return {"way": way, "placement": found, "numbers": numbers, "refused": None}
    except PlacementError as error:
        return {"way": way, "placement": None, "numbers": [], "refused": {"en": str(error), **error.translations}}


def _one(name: str, query: Query, known: list[Preset]) -> Preset:
    id = query.get(name, known[0].id)
    found = next((one for one in known if one.id == id), None)
    if found is None:
        ids = ", ".join(one.id for one in known)
        raise refusal("no_times", name=name, asked=id[:40], known=ids)
    return found


def placement(own: Sequence[Path], request: Request) -> Response:
    """Return the three placements for the settings in the URL."""
    return json_answer(answer(request.args, with_own_presets(own)))


def tried_route(own: Sequence[Path], request: Request) -> Response:
    """Return one simulated placement."""
    return json_answer(tried_answer(request.args, with_own_presets(own)))
