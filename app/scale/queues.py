"""Section "Queues" of /scale: TTFT of one GPU, pipeline and tensor parallelism over the request rate.

All numbers are computed by `engine.simulate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypedDict

from flask import Request, Response

from app.ground.routing import json_answer
from app.scale.bounds import QUEUES
from app.scale.request import ListOption, Query, one_of, parse_float, parse_int, refused, with_own_presets
from engine.accounting.derived import Derived
from engine.accounting.impossible import ImpossibleInput
from engine.accounting.presets import GpuPreset, LinkPreset, ModelPreset, Presets, presets
from engine.simulate.degrees import Degree, decode_over_degrees, goodput_per_gpu, request_rate
from engine.simulate.queues import ARRANGEMENTS, Arrangement, Prefill, crossing, highest_rate, mean_ttft
from engine.simulate.split_speedup import split_speedup
from engine.trace.applications import TABLE, Application

POINTS = 80  # points of a curve
MAX_LOAD = 0.99  # end of a curve, as a share of the load at which the queue becomes unstable
DEGREES = [1, 2, 4, 8]
MODEL, CARD, LINK, PROMPT_TOKENS = "opt-66b", "a100-80gb", "nvlink-3", 512  # of DistServe's figure 4
SOURCE = "DistServe, arXiv 2401.09670 v3"


class CurvePoint(TypedDict):
    """Mean time to first token at a load R · D."""

    load: float
    rate: float  # requests per second
    seconds: float


class Line(TypedDict):
    """Curve of an arrangement."""

    arrangement: Arrangement
    gpus: int
    most_load: float  # upper bound of R · D
    ttft: Derived | None  # at the rate of the query
    refused: dict[str, str] | None  # why there is no `ttft`, by language
    curve: list[CurvePoint]


class ArrangementRate(TypedDict):
    """Rates of an arrangement within an application's objectives, in requests per second."""

    arrangement: Arrangement
    gpus: int  # of each side
    prefill: float  # highest rate at which the required share of requests meets the TTFT objective
    decode: float  # 0: a step takes longer than the TPOT objective
    per_gpu: float  # goodput per GPU, which the slower side limits


class ApplicationRow(TypedDict):
    """Row of an application."""

    application: Application
    served: list[ArrangementRate]


class CrossingPoint(TypedDict):
    """Load above which inter is faster than intra."""

    load: float
    rate: float


class Split(TypedDict):
    """Speed-up K for a model, GPU, link and length. `refused`: why there is none, by language."""

    models: list[ListOption]
    gpus: list[ListOption]
    links: list[ListOption]
    numbers: list[Derived]
    refused: dict[str, str] | None


class QueuesAnswer(TypedDict):
    """Response of /api/scale/queues."""

    asked: dict[str, float]
    lines: list[Line]
    crossing: CrossingPoint | None  # None: intra is always faster
    decode: list[Degree]
    applications: list[ApplicationRow]
    split: Split
    source: str


def answer(query: Query, known: Presets | None = None) -> QueuesAnswer:
    """Return all curves and tables for these settings.

    Raises:
        AppError: an invalid setting.
    """
    rate = parse_float(query, "rate", 2.0, QUEUES["rate"])
    gpus = parse_int(query, "gpus", 2, QUEUES["gpus"])
    prefill = Prefill(
        service=parse_float(query, "service", 0.25, QUEUES["service"]),
        gpus=gpus,
        speedup=parse_float(query, "speedup", 1.5, QUEUES["speedup"]),
    )
    step, batch = parse_float(query, "step", 0.05, QUEUES["step"]), parse_int(query, "batch", 128, QUEUES["batch"])
    decode_speedup = parse_float(query, "decode_speedup", 1.7, QUEUES["decode_speedup"])
    output_tokens = parse_int(query, "output_tokens", 64, QUEUES["output_tokens"])
    share = parse_float(query, "share", 0.9, QUEUES["share"])
    try:
        prefill.checked()
        degrees = decode_over_degrees(step, batch, sorted({*DEGREES, gpus}), decode_speedup)
        at = crossing(prefill)
        return {
            "asked": {
                "rate": rate,
                "service": prefill.service,
                "gpus": gpus,
                "speedup": prefill.speedup,
                "step": step,
                "batch": batch,
                "decode_speedup": decode_speedup,
                "output_tokens": output_tokens,
                "share": share,
            },
            "lines": [_line(prefill, arrangement, rate) for arrangement in ARRANGEMENTS],
            "crossing": None if at is None else {"load": at, "rate": at / prefill.service},
            "decode": degrees,
            "applications": [
                {
                    "application": row,
                    "served": [
                        _served(prefill, degrees, arrangement, row, output_tokens, share)
                        for arrangement in ARRANGEMENTS
                    ],
                }
                for row in TABLE
            ],
            "split": _split(query, gpus, known or presets()),
            "source": SOURCE,
        }
    except ValueError as error:
        raise refused(error) from error


def _split(query: Query, gpus: int, known: Presets) -> Split:
    counted = {id: one for id, one in known.models.items() if one.is_counted}
    model = one_of("model", query, counted, MODEL)
    gpu = one_of("gpu", query, known.gpus, CARD)
    link = one_of("link", query, known.links, LINK)
    tokens = parse_int(query, "prompt_tokens", PROMPT_TOKENS, QUEUES["prompt_tokens"])
    numbers: list[Derived] = []
    reason = None
    try:
        numbers = split_speedup(model, gpu, link, gpus, tokens)
    except ImpossibleInput as error:
        reason = {"en": str(error), **error.translations}
    return {
        "models": _options(counted.values()),
        "gpus": _options(known.gpus.values()),
        "links": _options(known.links.values()),
        "numbers": numbers,
        "refused": reason,
    }


def _options(choices: Iterable[ModelPreset | GpuPreset | LinkPreset]) -> list[ListOption]:
    return [{"id": one.id, "name": one.name} for one in choices]


def _line(prefill: Prefill, arrangement: Arrangement, rate: float) -> Line:
    ttft, reason = None, None
    try:
        ttft = mean_ttft(prefill, arrangement, rate)
    except ImpossibleInput as error:
        reason = {"en": str(error), **error.translations}
    limit = prefill.max_load(arrangement)
    loads = [MAX_LOAD * limit * i / POINTS for i in range(POINTS + 1)]
    return {
        "arrangement": arrangement,
        "gpus": prefill.num_gpus(arrangement),
        "most_load": limit,
        "ttft": ttft,
        "refused": reason,
        "curve": [
            {
                "load": load,
                "rate": load / prefill.service,
                "seconds": mean_ttft(prefill, arrangement, load / prefill.service).value,
            }
            for load in loads
        ],
    }


def _served(
    prefill: Prefill,
    degrees: list[Degree],
    arrangement: Arrangement,
    row: Application,
    output_tokens: int,
    share: float,
) -> ArrangementRate:
    gpus = prefill.num_gpus(arrangement)
    degree = next(degree for degree in degrees if degree.gpus == gpus)
    is_intra = arrangement == "intra"
    latency = degree.intra_latency.value if is_intra else degree.inter_latency
    throughput = degree.intra_throughput.value if is_intra else degree.inter_throughput.value
    prefill_rate = highest_rate(prefill, arrangement, row.ttft, share)
    decode_rate = request_rate(throughput, output_tokens) if latency <= row.tpot else 0.0
    return {
        "arrangement": arrangement,
        "gpus": gpus,
        "prefill": prefill_rate,
        "decode": decode_rate,
        "per_gpu": goodput_per_gpu(prefill_rate, gpus, decode_rate, gpus),
    }


def queues(own: Sequence[Path], request: Request) -> Response:
    """Return all curves and tables for the settings in the URL."""
    return json_answer(answer(request.args, with_own_presets(own)))
