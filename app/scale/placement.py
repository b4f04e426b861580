"""Section "Placement" of /scale: GPUs for a demand, with prefill and decode apart or together, and their simulation.

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
from app.scale.request import ListOption, Query, known_of, real, refusal, refused, whole
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
REQUESTS = 300  # of a simulation
MAX_OUTPUT, MAX_PROMPT = 60_000, 600_000  # total tokens of a simulation: a few seconds on one core
MAX_INSTANCES = 16
trying = threading.Lock()  # one simulation at a time: it takes a core


class Found(TypedDict):
    """Placement of one of the three kinds."""

    way: Way
    placement: Placement | None
    numbers: list[Derived]  # its numbers with formulas
    refused: dict[str, str] | None  # why there is none, by language


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


class Wanted(TypedDict):
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
    wanted = read(query, known)
    return {
        "models": [{"id": one.id, "name": one.name} for one in known.timed_models],
        "gpus": [{"id": one.id, "name": one.name} for one in known.timed_gpus],
        "asked": wanted["demand"],
        "ways": [_found(way, wanted) for way in _WAYS],
        "source": SOURCE,
        "times_source": "; ".join(dict.fromkeys(card.source for card in wanted["cards"] if card.source)),
    }


def tried_answer(query: Query, known: Presets | None = None) -> TriedAnswer:
    """Return a placement of these settings, simulated with the engine's scheduler.

    Raises:
        AppError: an invalid setting, or the placement cannot be simulated.
    """
    wanted = read(query, known or presets())
    way: Way = next((one for one in _WAYS if one == query.get("way")), "apart")
    demand = wanted["demand"]
    number = min(REQUESTS, MAX_OUTPUT // demand.output_tokens, MAX_PROMPT // demand.prompt_tokens)
    if not trying.acquire(blocking=False):
        raise refusal("trying", "busy")
    try:
        found = _WAYS[way](wanted)
        instances = sum(option.replicas * option.stages for option in found.options)
        if instances > MAX_INSTANCES:
            raise refusal("most_instances", "refused", number=instances, most=MAX_INSTANCES)
        return {"way": way, "tried": simulate_placement(wanted["cards"], found, demand, wanted["nodes"], number)}
    except ValueError as error:
        raise refused(error) from error
    finally:
        trying.release()


def read(query: Query, known: Presets) -> Wanted:
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
            number=whole(query, "nodes", 4, PLACEMENT["nodes"]),
            gpus=whole(query, "node_gpus", 8, PLACEMENT["node_gpus"]),
            network=real(query, "network", 25.0, PLACEMENT["network"]) * 1e9,
        ),
        "demand": Demand(
            rate=real(query, "rate", 10.0, PLACEMENT["rate"]),
            prompt_tokens=whole(query, "prompt_tokens", 512, PLACEMENT["prompt_tokens"], model.max_position - 1),
            output_tokens=whole(query, "output_tokens", 128, PLACEMENT["output_tokens"]),
            ttft=real(query, "ttft", chat.ttft, PLACEMENT["ttft"]),
            tpot=real(query, "tpot", chat.tpot, PLACEMENT["tpot"]),
            share=real(query, "share", 0.9, PLACEMENT["share"]),
        ),
    }


_WAYS: dict[Way, Callable[[Wanted], Placement]] = {
    "apart": lambda it: disaggregated(it["cards"], it["nodes"], it["demand"]),
    "on_one_node": lambda it: on_one_node(it["cards"], it["nodes"], it["demand"]),
    "together": lambda it: colocated(it["cards"][1], it["nodes"], it["demand"]),
}


def _found(way: Way, wanted: Wanted) -> Found:
    try:
        found = _WAYS[way](wanted)
        numbers = placement_numbers(found, wanted["cards"][1].model, wanted["nodes"], wanted["demand"])
        return {"way": way, "placement": found, "numbers": numbers, "refused": None}
    except PlacementError as error:
        return {"way": way, "placement": None, "numbers": [], "refused": {"en": str(error), **error.translations}}


def _one(name: str, query: Query, known: list[Preset]) -> Preset:
    wanted = query.get(name, known[0].id)
    found = next((one for one in known if one.id == wanted), None)
    if found is None:
        ids = ", ".join(one.id for one in known)
        raise refusal("no_times", name=name, asked=wanted[:40], known=ids)
    return found


def placement(own: Sequence[Path], request: Request) -> Response:
    """Return the three placements for the settings in the URL."""
    return json_answer(answer(request.args, known_of(own)))


def tried_route(own: Sequence[Path], request: Request) -> Response:
    """Return one simulated placement."""
    return json_answer(tried_answer(request.args, known_of(own)))
