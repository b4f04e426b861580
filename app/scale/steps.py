"""Steps of a model under two roofs: curves, the chosen step, measured points, and the error.

A time for another model or machine is a prediction, and is only shown with a measured error: of layers on a GPU, or of
the `step-time` record on this machine. The same holds for a crossing, with the measured roofs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from app.recordings.shelf import file_stamp
from app.scale.bounds import MAX_CONTEXT, ROOFLINE
from app.scale.errors import ErrorSource, MeasuredOn, errors_of, reached_roofs
from app.scale.request import ListOption, Query, refusal, whole, wholes
from engine.accounting.derived import Derived
from engine.accounting.memory import bytes_per_element, bytes_per_weight, kv_bytes_per_token
from engine.accounting.mla import absorbed_flops, expanded_flops
from engine.accounting.presets import ModelPreset
from engine.accounting.roofline_steps import Bound, Crossing, Roof, StepTime, StepTimes
from engine.accounting.shape import ModelShape
from engine.accounting.sources import SourceFacts
from engine.accounting.weights import PUBLISHED
from engine.bench.prediction_error import SCENARIO as STEP_TIME
from engine.bench.prediction_error import PredictionError, prediction_error, sequences_of
from engine.bench.record import Record, read_record
from engine.bench.saturation import SCENARIO as TWO_AXES
from engine.bench.saturation import Saturation, saturation
from engine.trace.records import Phase

BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
CONTEXTS = [60, 256, 900]
LONG_CONTEXTS = [512, 4096, 32_768]  # for models that support them
MAX_TOKENS = 1 << 20  # of a prefill step


class StepPoint(TypedDict):
    """Step. `seconds` is None if the error of such a prediction is not measured."""

    batch: int
    tokens: int  # computed for each sequence
    context: int
    intensity: float
    flops_per_second: float  # allowed by the roofs at this intensity
    bound: Bound
    seconds: float | None
    # `seconds` times the smallest measured factor, and the time with evenly chosen experts times the largest
    expected: tuple[float, float] | None


class MeasuredStep(TypedDict):
    """Point of the roofline: a measured step of this model under these roofs."""

    phase: Phase
    variant: str
    batch: int
    tokens: int
    intensity: float
    flops_per_second: float


Span = tuple[int | None, int | None]  # minimum, maximum; None: no crossing


class DecodeLine(TypedDict):
    """Decode over the batch, at a number of keys. `expected`: the crossing with the measured roofs; None: not measured,
    or not needed for a model that runs here.
    """

    context: int
    points: list[StepPoint]
    crossing: Crossing
    expected: Span | None


class PrefillLine(TypedDict):
    """Prefill over the prompt length, for a number of prompts per step. `crossing`: first compute-bound length."""

    batch: int
    points: list[StepPoint]
    crossing: int | None
    expected: Span | None


class RooflineAnswer(TypedDict):
    """Response of /api/scale/roofline."""

    model: str
    max_position: int
    models: list[ListOption]  # `here`, the live model, is the first if there is one
    gpus: list[ListOption]  # for this machine `recorded`, measured when idle, and `here`, measured now
    is_loading: bool  # a model is loading; retry shortly for more choices
    dtypes: list[str]  # choices; empty: the model's own
    dtype: str
    experts_in: str | None  # format of the published experts' weights, if narrower
    roof: Roof
    sources: Sequence[SourceFacts]  # of the figures of the model and the GPU
    ridge: Derived
    is_here: bool  # this model runs on this machine
    decode: list[DecodeLine]
    never_from: int | None  # keys from which on no decode batch is compute-bound; None: no such context of the model
    prefill: list[PrefillLine]
    chosen: dict[str, Any]  # decode and prefill at the given batch and context, with derivations
    errors: dict[Phase, PredictionError | None]  # by phase; None: not measured yet
    error_source: ErrorSource | None
    dots: list[MeasuredStep]  # empty: the record is of another model or other roofs
    measured_on: dict[str, str]  # by scenario: processor of its record
    saturation: Saturation | None


class ServedDtype(NamedTuple):
    """Model with weights in another dtype than its own. K and V have the width of `kv_cache_dtype` auto: two bytes for
    one-byte weights. Experts published in a narrower format keep it.
    """

    dtype: str
    weight_element_bytes: float
    kv_bytes_per_token: int
    expert_element_bytes: float | None = None


def served_in(shape: ModelShape, dtype: str) -> ServedDtype:
    """Return the served sizes of a model in a dtype.

    Raises:
        ValueError: unknown dtype.
    """
    size, experts = bytes_per_element(dtype), None
    if isinstance(shape, ModelPreset) and shape.published == "mxfp4":
        experts = min(size, PUBLISHED["mxfp4"])
    return ServedDtype(dtype, size, kv_bytes_per_token(shape, max(size, 2)), experts)


class Subject(NamedTuple):
    """Model and roofs of the drawn steps, with the alternatives."""

    shape: ModelShape
    roof: Roof
    is_here: bool  # this model runs on this machine
    is_recorded: bool  # the roofs are those of the record of `step-time`
    models: list[ListOption]
    gpus: list[ListOption]
    is_loading: bool = False  # a model is loading
    dtypes: Sequence[str] = ()  # supported by the device, if several
    served: ServedDtype | None = None  # None: in the model's own dtype
    measured: MeasuredOn | None = None  # None: this machine
    sources: Sequence[SourceFacts] = ()  # of the figures of preset model and GPU


def answer(subject: Subject, results: Path, query: Query) -> RooflineAnswer:
    """Return all curves and figures for these settings.

    Raises:
        AppError: an invalid setting.
    """
    shape, roof, is_here = subject.shape, subject.roof, subject.is_here
    furthest = min(MAX_CONTEXT, shape.max_position)
    batches = wholes(query, "batches", BATCHES, ROOFLINE["batch"])
    usual = LONG_CONTEXTS if furthest > LONG_CONTEXTS[1] else CONTEXTS
    fitting = [n for n in usual if n <= furthest] or [furthest]
    contexts = wholes(query, "contexts", fitting, ROOFLINE["context"], furthest)
    batch = whole(query, "batch", 16, ROOFLINE["batch"])
    context = whole(query, "context", min(256, furthest), ROOFLINE["context"], furthest)
    if batch * context > MAX_TOKENS:
        raise refusal("prefill_step", "refused", batch=batch, context=context)
    served = subject.served or ServedDtype(shape.dtype, bytes_per_weight(shape), kv_bytes_per_token(shape))
    sizes = served.weight_element_bytes, served.kv_bytes_per_token, served.expert_element_bytes
    times = StepTimes(shape, roof, *sizes)
    step_time, two_axes = published(results, STEP_TIME), published(results, TWO_AXES)
    errors, error_source = errors_of(subject.measured, step_time)
    reached = None if is_here else reached_roofs(roof, subject.measured, errors)

    def span(of: Callable[[StepTimes], int | None]) -> Span | None:
        if reached is None:
            return None
        low, high = (of(StepTimes(shape, one, *sizes)) for one in reached)
        return low, high

    lengths = [1 << power for power in range(furthest.bit_length()) if 1 << power <= furthest]
    prompts = [n for n in (1, 4, 16) if n * lengths[-1] <= MAX_TOKENS]

    def step_point(step: StepTime, phase: Phase) -> StepPoint:
        error, seconds = errors[phase], step.seconds.value
        return {
            "batch": step.batch,
            "tokens": step.tokens,
            "context": step.context,
            "intensity": step.intensity.value,
            "flops_per_second": min(roof.flops_per_second, step.intensity.value * roof.bytes_per_second),
            "bound": step.bound,
            "seconds": seconds if is_here or error else None,
            "expected": (seconds * error.least, (step.evenly or step.seconds).value * error.most) if error else None,
        }

    def derived(step: StepTime, phase: Phase) -> dict[str, Any]:
        shown = is_here or errors[phase]
        of_a_key = absorbed_flops if phase == "decode" else expanded_flops
        return {
            "step": step_point(step, phase),
            "latent": of_a_key(shape) if shape.latent_dim else None,
            "work": step.work,
            "intensity": step.intensity,
            "seconds": step.seconds if shown else None,
            "experts": step.experts,
            "evenly": step.evenly if shown else None,
        }

    def decode_line(keys: int) -> DecodeLine:
        return {
            "context": keys,
            "points": [step_point(times.decode(number, keys), "decode") for number in batches],
            "crossing": times.crossing(keys),
            "expected": span(lambda moved: moved.crossing(keys).evenly),
        }

    def prefill_line(number: int) -> PrefillLine:
        return {
            "batch": number,
            "points": [step_point(times.prefill(number, tokens), "prefill") for tokens in lengths],
            "crossing": times.prefill_crossing(number),
            "expected": span(lambda moved: moved.prefill_crossing(number)),
        }

    return {
        "model": shape.name,
        "max_position": shape.max_position,
        "models": subject.models,
        "gpus": subject.gpus,
        "is_loading": subject.is_loading,
        "dtypes": list(subject.dtypes),
        "dtype": served.dtype,
        "experts_in": "mxfp4" if served.expert_element_bytes else None,
        "roof": roof,
        "sources": subject.sources,
        "ridge": roof.ridge,
        "is_here": is_here,
        "decode": [decode_line(keys) for keys in contexts],
        "never_from": times.never_from(),
        "prefill": [prefill_line(number) for number in prompts],
        "chosen": {
            "decode": derived(times.decode(batch, context), "decode"),
            "prefill": derived(times.prefill(batch, context), "prefill"),
        },
        "errors": errors,
        "error_source": error_source,
        "dots": _dots(step_time, subject, times) if step_time else [],
        "measured_on": {
            record.scenario.id: record.environment.machine.processor for record in (step_time, two_axes) if record
        },
        "saturation": saturation(two_axes) if two_axes else None,
    }


def _dots(record: Record, subject: Subject, times: StepTimes) -> list[MeasuredStep]:
    """Return the steps of the record if it is of this model; decode halfway through the output."""
    scenario = record.scenario
    if not subject.is_recorded or scenario.model != subject.shape.name:
        return []
    halfway = int(scenario.workload["output_tokens"]) // 2
    found: list[MeasuredStep] = []
    phases: tuple[Phase, ...] = ("prefill", "decode")
    for phase in phases:
        for point in prediction_error(record, phase).points:
            batch = sequences_of(scenario, point.variant)
            decodes = phase == "decode"
            step = times.decode(batch, point.tokens + halfway) if decodes else times.prefill(batch, point.tokens)
            found.append(
                {
                    "phase": phase,
                    "variant": point.variant,
                    "batch": batch,
                    "tokens": point.tokens,
                    "intensity": step.intensity.value,
                    "flops_per_second": step.work.flops / point.measured,
                }
            )
    return found


_records: dict[Path, tuple[str, Record]] = {}
_reading = threading.Lock()


def published(results: Path, scenario: str) -> Record | None:
    """Return the record of a scenario, read again when its file has changed, or None."""
    path = results / f"{scenario}.json"
    if not path.is_file():
        return None
    stamp = file_stamp(path)
    with _reading:
        if path not in _records or _records[path][0] != stamp:
            _records[path] = (stamp, read_record(path))
        return _records[path][1]
