"""Error of roofline predictions against measured step times.

The roofline is a lower bound, so the error is the factor `measured / predicted`, usually above 1.
"""

from __future__ import annotations

from statistics import median

from msgspec import Struct

from engine.bench.errors import BenchError
from engine.bench.record import Record
from engine.bench.scenario import Scenario
from engine.trace.records import Phase

SCENARIO = "step-time"


class StepPoint(Struct, frozen=True, kw_only=True):
    """Measured and predicted seconds of a step. `tokens`: length of each prompt, the context at the start of decode."""

    variant: str
    tokens: int
    measured: float
    low: float
    high: float
    predicted: float


class PredictionError(Struct, frozen=True, kw_only=True):
    """Prediction error of a phase: median, minimum and maximum of measured / predicted time over all points."""

    phase: Phase
    points: list[StepPoint]
    median: float
    least: float  # below 1: faster than the bound, with weights in the processor's caches
    most: float


def prediction_error(record: Record, phase: Phase, only: str = "") -> PredictionError:
    """Return the error from a record of `step-time`. `only`: suffix of the ids of variants to use.

    Raises:
        BenchError: the record is of another scenario, or has no step of this phase.
    """
    if record.scenario.id != SCENARIO:
        raise BenchError(f"the prediction error needs a record of {SCENARIO}, not of {record.scenario.id}")
    measured, predicted = f"{phase}_step_seconds", f"{phase}_roofline_seconds"
    points = [
        StepPoint(
            variant=point.variant,
            tokens=int(point.at),
            measured=point.figures[measured].median,
            low=point.figures[measured].low,
            high=point.figures[measured].high,
            predicted=point.figures[predicted].median,
        )
        for point in record.points
        if {measured, predicted} <= point.figures.keys() and point.variant.endswith(only)
    ]
    if not points:
        raise BenchError(f"the record of {SCENARIO} has no step of {phase}")
    times = [point.measured / point.predicted for point in points]
    return PredictionError(phase=phase, points=points, median=median(times), least=min(times), most=max(times))


def sequences_of(scenario: Scenario, variant: str) -> int:
    """Return the number of sequences in each step of a variant."""
    settings = next(one.set for one in scenario.variants if one.id == variant)
    return int(settings.get("workload.num_requests", scenario.workload["num_requests"]))  # type: ignore[call-overload]
