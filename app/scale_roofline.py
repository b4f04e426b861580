"""The section "Compute or bandwidth" of the page /scale: steps of a model under two roofs, over batch and context.

The roofs are this machine's, measured, or two rates that are given. A time under given roofs is a prediction for
hardware that is not here: it is told with the error that `step-time` measured where there is hardware, or not at all.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import flask
from flask import Request, Response

from app import routing
from app.errors import AppError
from app.models import Models
from app.recordings.shelf import file_stamp
from app.routing import Route, json_answer
from app.scale_asked import Asked, real, whole, wholes
from app.theaters import Theaters
from engine.accounting.derived import Derived
from engine.accounting.roofline_steps import Bound, Crossing, Roof, StepTime, StepTimes
from engine.bench.prediction_error import SCENARIO as STEP_TIME
from engine.bench.prediction_error import PredictionError, prediction_error
from engine.bench.record import RESULTS, Record, read_record
from engine.bench.saturation import SCENARIO as TWO_AXES
from engine.bench.saturation import Saturation, saturation
from engine.trace.records import ModelFacts

BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
CONTEXTS = [60, 256, 900]
MOST_BATCH, MOST_CONTEXT = 4096, 131_072
MOST_TOKENS = 1 << 20  # of a prefill step
HERE = "measured here"


class StepPoint(TypedDict):
    """A step. `seconds` is None where no error of such a prediction was measured."""

    batch: int
    tokens: int  # computed for each sequence
    context: int
    intensity: float
    flops_per_second: float  # that the roofs allow at this intensity
    bound: Bound
    seconds: float | None


class DecodeLine(TypedDict):
    """Decode over the batch, at so many keys."""

    context: int
    points: list[StepPoint]
    crossing: Crossing


class PrefillLine(TypedDict):
    """Prefill over the length of prompts, so many in a step. `crossing`: the length that is compute-bound, if any."""

    batch: int
    points: list[StepPoint]
    crossing: int | None


class RooflineAnswer(TypedDict):
    """/api/scale/roofline."""

    model: str
    max_position: int
    roof: Roof
    ridge: Derived
    is_here: bool  # the roofs were measured on this machine
    decode: list[DecodeLine]
    prefill: list[PrefillLine]
    chosen: dict[str, Any]  # decode and prefill at the batch and context asked for: intensity and seconds, derived
    errors: dict[str, PredictionError | None]  # by phase; None: nobody has measured it yet
    saturation: Saturation | None


class Here(NamedTuple):
    """Whose model and whose machine; `results`: the folder of published records."""

    theaters: Theaters
    models: Models
    results: Path


def answer(facts: ModelFacts, roof: Roof, is_here: bool, results: Path, asked: Asked) -> RooflineAnswer:
    """All curves and figures for these settings.

    Raises:
        AppError: one of them cannot be.
    """
    furthest = min(MOST_CONTEXT, facts.max_position)
    batches = wholes(asked, "batches", BATCHES, 1, MOST_BATCH)
    contexts = wholes(asked, "contexts", [n for n in CONTEXTS if n <= furthest] or [furthest], 1, furthest)
    batch = whole(asked, "batch", 16, 1, MOST_BATCH)
    context = whole(asked, "context", min(256, furthest), 1, furthest)
    if batch * context > MOST_TOKENS:
        raise AppError("refused", f"a prefill of {batch} prompts of {context} tokens is more than one step holds here")
    times = StepTimes(facts, roof)
    step_time, two_axes = _published(results, STEP_TIME), _published(results, TWO_AXES)
    errors = {phase: prediction_error(step_time, phase) if step_time else None for phase in ("prefill", "decode")}  # type: ignore[arg-type]
    lengths = [1 << power for power in range(furthest.bit_length()) if 1 << power <= furthest]
    prompts = [n for n in (1, 4, 16) if n * lengths[-1] <= MOST_TOKENS]

    def told(step: StepTime, phase: str) -> StepPoint:
        return {
            "batch": step.batch,
            "tokens": step.tokens,
            "context": step.context,
            "intensity": step.intensity.value,
            "flops_per_second": min(roof.flops_per_second, step.intensity.value * roof.bytes_per_second),
            "bound": step.bound,
            "seconds": step.seconds.value if is_here or errors[phase] else None,
        }

    def derived(step: StepTime, phase: str) -> dict[str, Any]:
        shown = is_here or errors[phase]
        return {
            "step": told(step, phase),
            "work": step.work,
            "intensity": step.intensity,
            "seconds": step.seconds if shown else None,
        }

    return {
        "model": facts.name,
        "max_position": facts.max_position,
        "roof": roof,
        "ridge": roof.ridge,
        "is_here": is_here,
        "decode": [
            {
                "context": keys,
                "points": [told(times.decode(number, keys), "decode") for number in batches],
                "crossing": times.crossing(keys),
            }
            for keys in contexts
        ],
        "prefill": [
            {
                "batch": number,
                "points": [told(times.prefill(number, tokens), "prefill") for tokens in lengths],
                "crossing": times.prefill_crossing(number),
            }
            for number in prompts
        ],
        "chosen": {
            "decode": derived(times.decode(batch, context), "decode"),
            "prefill": derived(times.prefill(batch, context), "prefill"),
        },
        "errors": errors,
        "saturation": saturation(two_axes) if two_axes else None,
    }


_records: dict[Path, tuple[str, Record]] = {}
_reading = threading.Lock()


def _published(results: Path, scenario: str) -> Record | None:
    """The record of a scenario, read again when its file has changed; None: there is none."""
    path = results / f"{scenario}.json"
    if not path.is_file():
        return None
    stamp = file_stamp(path)
    with _reading:
        if path not in _records or _records[path][0] != stamp:
            _records[path] = (stamp, read_record(path))
        return _records[path][1]


def roofline(here: Here, request: Request) -> Response:
    """Steps of this server's first model for the settings in the address; `flops` and `bandwidth` together: given."""
    facts = here.models.first.facts
    if facts is None:
        raise AppError("not_found", "there is no model here whose steps could be counted")
    asked = request.args
    is_here = not {"flops", "bandwidth"} & asked.keys()
    if is_here:
        if not here.models.is_live:
            raise AppError("not_found", "there is no live model here, so nothing to measure its machine for")
        roofs = here.theaters.measured(here.models.first.model).roofs
        assert roofs is not None
        roof = Roof(flops_per_second=roofs.flops_per_second, bytes_per_second=roofs.bytes_per_second, source=HERE)
    else:
        roof = Roof(
            flops_per_second=real(asked, "flops", 0.0, 1.0, 1e20),
            bytes_per_second=real(asked, "bandwidth", 0.0, 1.0, 1e18),
            source="given",
        )
    try:
        return json_answer(answer(facts, roof, is_here, here.results, asked))
    except ValueError as error:
        raise AppError("refused", str(error)) from error


ROUTES = [Route("GET", "/roofline", roofline)]


def blueprint(theaters: Theaters, models: Models) -> flask.Blueprint:
    """/api/scale/roofline."""
    return routing.blueprint("scale_roofline", "/api/scale", Here(theaters, models, RESULTS), ROUTES)
