"""Steps of a model under two roofs: curves, the chosen step, measured points, and the error.

A time for another model or machine is a prediction. It is shown only if its error was measured, by layers on a GPU or
by the `step-time` record on this machine. The range of a crossing likewise needs measured roofs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from app.recordings.shelf import file_stamp
from app.scale.bounds import MAX_CONTEXT, ROOFLINE
from app.scale.errors import ErrorSource, MeasuredOn, errors_of, reached_roofs
from app.scale.request import ListOption, Query, parse_int, parse_ints, refusal
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
    """Step. `seconds` is None if the error of the prediction was not measured."""

    batch: int
    tokens: int  # computed tokens of each sequence
    context: int
    intensity: float
    flops_per_second: float  # limit by the roofs at this intensity
    bound: Bound
    seconds: float | None
    # `seconds` times the smallest measured factor, and the time with evenly chosen experts times the largest one
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
    """Decode steps over the batch, at a number of keys. `expected`: range of the crossing with the measured roofs;
    None: not measured, or not needed for a model that runs here.
    """

    context: int
    points: list[StepPoint]
    crossing: Crossing
    expected: Span | None


class PrefillLine(TypedDict):
    """Prefill steps over the prompt length, for `batch` prompts per step. `crossing`: first compute-bound length."""

    batch: int
    points: list[StepPoint]
    crossing: int | None
    expected: Span | None


class RooflineAnswer(TypedDict):
    """Response of /api/scale/roofline."""

    model: str
    max_position: int
    models: list[ListOption]  # the first is `here`, the live model, if there is one
    gpus: list[ListOption]  # this machine has `recorded`, measured when idle, and `here`, measured now
    is_loading: bool  # whether a model is loading, after which there are more choices
    dtypes: list[str]  # choices; empty: the model's own dtype only
    dtype: str
    experts_in: str | None  # format of the published experts' weights, if it is narrower
    roof: Roof
    sources: Sequence[SourceFacts]  # sources of the figures of the model and the GPU
    ridge: Derived
    is_here: bool  # whether this model runs on this machine
    decode: list[DecodeLine]
    never_from: int | None  # keys from which on no decode batch is compute-bound; None: no such context of the model
    prefill: list[PrefillLine]
    chosen: dict[str, Any]  # decode and prefill at the batch and context of the query, with derivations
    errors: dict[Phase, PredictionError | None]  # None: not measured
    error_source: ErrorSource | None
    dots: list[MeasuredStep]  # empty if the record is of another model or has other roofs
    measured_on: dict[str, str]  # by scenario: processor of its record
    saturation: Saturation | None


class ServedDtype(NamedTuple):
    """Sizes of a model that is served in a dtype. K and V have the width of `kv_cache_dtype` auto, which is two bytes
    for one-byte weights. Experts that are published in a narrower format keep that format.
    """

    dtype: str
    weight_element_bytes: float
    kv_bytes_per_token: int
    expert_element_bytes: float | None = None


def served_in(shape: ModelShape, dtype: str) -> ServedDtype:
    """Return the served sizes of a model in a dtype.

    Raises:
        ValueError: the dtype is unknown.
    """
    size, experts = bytes_per_element(dtype), None
    if isinstance(shape, ModelPreset) and shape.published == "mxfp4":
        experts = min(size, PUBLISHED["mxfp4"])
    return ServedDtype(dtype, size, kv_bytes_per_token(shape, max(size, 2)), experts)


class Subject(NamedTuple):
    """Model and roofs of the steps, and the choices."""

    shape: ModelShape
    roof: Roof
    is_here: bool  # whether this model runs on this machine
    is_recorded: bool  # whether the roofs are those of the record `step-time`
    models: list[ListOption]
    gpus: list[ListOption]
    is_loading: bool = False  # whether a model is loading
    dtypes: Sequence[str] = ()  # dtypes of the GPU; (): this machine
    served: ServedDtype | None = None  # None: the model's own dtype
    measured: MeasuredOn | None = None  # None: this machine
    sources: Sequence[SourceFacts] = ()  # sources of the figures of a preset model and GPU


def answer(subject: Subject, results: Path, query: Query) -> RooflineAnswer:
    """Return all curves and figures for these settings.

    Raises:
        AppError: an invalid setting.
    """
    shape, roof, is_here = subject.shape, subject.roof, subject.is_here
    max_context = min(MAX_CONTEXT, shape.max_position)
    batches = parse_ints(query, "batches", BATCHES, ROOFLINE["batch"])
    defaults = LONG_CONTEXTS if max_context > LONG_CONTEXTS[1] else CONTEXTS
    fitting = [n for n in defaults if n <= max_context] or [max_context]
    contexts = parse_ints(query, "contexts", fitting, ROOFLINE["context"], max_context)
    batch = parse_int(query, "batch", 16, ROOFLINE["batch"])
    context = parse_int(query, "context", min(256, max_context), ROOFLINE["context"], max_context)
    if batch * context > MAX_TOKENS:
        raise refusal("prefill_step", "refused", batch=batch, context=context)
    served = subject.served or ServedDtype(shape.dtype, bytes_per_weight(shape), kv_bytes_per_token(shape))
    sizes = served.weight_element_bytes, served.kv_bytes_per_token, served.expert_element_bytes
    times = StepTimes(shape, roof, *sizes)
    step_time, two_axes = published(results, STEP_TIME), published(results, TWO_AXES)
    errors, error_source = errors_of(subject.measured, step_time)
    reached = None if is_here else reached_roofs(roof, subject.measured, errors)

    def span(crossing: Callable[[StepTimes], int | None]) -> Span | None:
        if reached is None:
            return None
        low, high = (crossing(StepTimes(shape, one, *sizes)) for one in reached)
        return low, high

    lengths = [1 << power for power in range(max_context.bit_length()) if 1 << power <= max_context]
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
        has_error = is_here or errors[phase]
        flops_of_key = absorbed_flops if phase == "decode" else expanded_flops
        return {
            "step": step_point(step, phase),
            "latent": flops_of_key(shape) if shape.latent_dim else None,
            "work": step.work,
            "intensity": step.intensity,
            "seconds": step.seconds if has_error else None,
            "experts": step.experts,
            "evenly": step.evenly if has_error else None,
        }

    def decode_line(keys: int) -> DecodeLine:
        return {
            "context": keys,
            "points": [step_point(times.decode(number, keys), "decode") for number in batches],
            "crossing": times.crossing(keys),
            "expected": span(lambda measured: measured.crossing(keys).evenly),
        }

    def prefill_line(number: int) -> PrefillLine:
        return {
            "batch": number,
            "points": [step_point(times.prefill(number, tokens), "prefill") for tokens in lengths],
            "crossing": times.prefill_crossing(number),
            "expected": span(lambda measured: measured.prefill_crossing(number)),
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
    """Return the steps of the record if it is of this model. Decode steps are those halfway through the output."""
    scenario = record.scenario
    if not subject.is_recorded or scenario.model != subject.shape.name:
        return []
    halfway = int(scenario.workload["output_tokens"]) // 2
    found: list[MeasuredStep] = []
    phases: tuple[Phase, ...] = ("prefill", "decode")
    for phase in phases:
        for point in prediction_error(record, phase).points:
            batch = sequences_of(scenario, point.variant)
            is_decode = phase == "decode"
            step = times.decode(batch, point.tokens + halfway) if is_decode else times.prefill(batch, point.tokens)
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
    """Return the published record of a scenario, or None. It is cached until the file changes."""
    path = results / f"{scenario}.json"
    if not path.is_file():
        return None
    stamp = file_stamp(path)
    with _reading:
        if path not in _records or _records[path][0] != stamp:
            _records[path] = (stamp, read_record(path))
        return _records[path][1]
