"""Fits a cost model of a machine's steps to the log of a run on it.

The time of a step begins at the end of the previous record, so it includes the caller's work between steps. Steps
without unfinished requests before them are excluded. The fit minimizes squared relative errors with non-negative
coefficients (Lawson and Hanson, "Solving Least Squares Problems", 1974, ch. 23: scipy.optimize.nnls).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from engine.simulate.cost import FULL, Linear, StepShape, Windows, knots_up_to, shape_of
from engine.trace.operations import Finish, Submit
from engine.trace.records import StepRecord

MIN_STEPS = 16


class CalibrationError(ValueError):
    """The log has too few steps."""


class TimedStep(NamedTuple):
    """Shape and duration of a step."""

    shape: StepShape
    seconds: float


class Calibration(NamedTuple):
    """Fitted cost model and its errors."""

    cost: Linear
    num_steps: int
    ratios: list[float]  # measured / fitted, per step

    @property
    def median_error(self) -> float:
        """Median of |measured / fitted - 1|."""
        return float(np.median(np.abs(np.array(self.ratios) - 1)))


def timed_steps(records: Iterable[StepRecord], windows: Windows = FULL) -> list[TimedStep]:
    """Return the steps of one engine during which requests were unfinished since the previous record."""
    found = list[TimedStep]()
    unfinished = 0
    before: float | None = None  # end of the previous record; None if no request was unfinished then
    after_idle = False
    for record in records:
        if record.kind == "step" and record.batch and before is not None:
            spans = [(entry.start, len(entry.token_ids)) for entry in record.batch]
            found.append(TimedStep(shape_of(spans, windows, after_idle), record.timing.at - before))
        after_idle = not unfinished
        for op in record.ops:
            unfinished += isinstance(op, Submit)
            unfinished -= isinstance(op, Finish)
        before = record.timing.at if unfinished else None
    return found


def calibrate(steps: Sequence[TimedStep], source: str) -> Calibration:
    """Fit a cost model to steps.

    Raises:
        CalibrationError: too few steps.
    """
    if len(steps) < MIN_STEPS:
        raise CalibrationError(f"{len(steps)} steps were timed; calibration needs at least {MIN_STEPS}")
    knots = knots_up_to(max(step.shape.num_tokens for step in steps))
    rows = np.array([[*_knot_weights(step.shape.num_tokens, knots), *step.shape[1:]] for step in steps], dtype=float)
    seconds = np.array([step.seconds for step in steps])
    # time must not decrease with the number of tokens: fit the increase from each knot to the next
    rows[:, : len(knots)] = np.cumsum(rows[:, : len(knots)][:, ::-1], axis=1)[:, ::-1]
    scale = rows.max(axis=0)
    scale[scale == 0] = 1.0
    from scipy.optimize import nnls  # lazy: the import takes 0.5 s, and starting a server does not need it

    found, _ = nnls(rows / scale / seconds[:, None], np.ones(len(steps)))
    found = found / scale
    each_seq, each_key, each_pair, idle = found[len(knots) :].tolist()
    cost = Linear(knots, np.cumsum(found[: len(knots)]).tolist(), each_seq, each_key, each_pair, source, idle)
    ratios = [step.seconds / cost.seconds(step.shape) for step in steps]
    return Calibration(cost, len(steps), ratios)


def _knot_weights(num_tokens: int, knots: Sequence[int]) -> list[float]:
    """Return the weight of each knot in the linear interpolation at `num_tokens`."""
    weights = [0.0] * len(knots)
    for index in range(len(knots) - 1):
        low, high = knots[index], knots[index + 1]
        if low <= num_tokens <= high:
            share = (num_tokens - low) / (high - low)
            weights[index], weights[index + 1] = 1 - share, share
            break
    return weights
