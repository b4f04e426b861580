"""Number of tokens that saturates a prefill step, from rates measured over prompts per step and tokens per prompt.

A step of b prompts of L tokens is modelled as

    seconds = a + c · b · L + q · b · L²        a: weights and overhead; c: per token; q: attention, per query and key

fitted to all points by non-negative least squares of relative errors, so that a single noisy point has little effect.
The rate b · L / seconds then rises with b towards 1 / (c + q · L), and reaches a share s of it at

    L_m = b · L = a · s / ((1 − s) · (c + q · L))

tokens. (DistServe, arXiv 2401.09670 v3, section 3.1, calls the length beyond which prefill is compute-bound L_m.)
"""

from __future__ import annotations

import re
from statistics import median

import numpy as np
from msgspec import Struct

from engine.bench.errors import BenchError
from engine.bench.record import Record

SCENARIO = "prefill-two-axes"
VARIANT = re.compile(r"batch-(\d+)$")
METRIC = "prefill_tokens_per_second"
SHARE_OF_BOUND = "prefill_roofline_share"  # roofline time / measured time of the same step


class RatePoint(Struct, frozen=True, kw_only=True):
    """Measured rate and fitted rate, in tokens per second."""

    batch: int
    tokens: int  # of each prompt
    rate: float
    low: float
    high: float
    fitted: float
    bound: float | None  # roofline rate of the model on the machine; None: not recorded


class Saturation(Struct, frozen=True, kw_only=True):
    """Fit, its error, and the tokens that saturate a step at each prompt length."""

    step_seconds: float  # a
    token_seconds: float  # c
    pair_seconds: float  # q
    share: float
    tokens: dict[int, float]  # prompt length -> L_m of the fit
    measured_tokens: dict[int, int]  # prompt length -> fewest tokens of a step that reach the share of its best rate
    bound_tokens: dict[int, int]  # as `measured_tokens`, for roofline rates
    points: list[RatePoint]
    median_error: float  # |fitted / measured − 1|
    worst_error: float


def saturation(record: Record, share: float = 0.9) -> Saturation:
    """Return the saturation from a record of `prefill-two-axes`.

    Raises:
        BenchError: the record is of another scenario, or has fewer than three measured points.
    """
    if record.scenario.id != SCENARIO:
        raise BenchError(f"saturation needs a record of {SCENARIO}, not of {record.scenario.id}")
    measured = [
        (int(found[1]), int(point.at), point.figures[METRIC], point.figures.get(SHARE_OF_BOUND))
        for point in record.points
        if (found := VARIANT.match(point.variant)) and METRIC in point.figures
    ]
    if len(measured) < 3:
        raise BenchError(f"the record of {SCENARIO} has {len(measured)} points; the fit needs at least three")
    from scipy.optimize import nnls  # lazy: it takes half a second, and every server imports this module

    batch = np.array([b for b, *_ in measured], dtype=float)
    length = np.array([n for _, n, *_ in measured], dtype=float)
    seconds = batch * length / np.array([figure.median for _, _, figure, _ in measured])
    terms = np.stack([np.ones_like(batch), batch * length, batch * length**2], axis=1)
    scale = np.linalg.norm(terms / seconds[:, None], axis=0)  # the terms differ by orders of magnitude

    solved, _ = nnls(terms / seconds[:, None] / scale, np.ones_like(seconds))
    a, c, q = (solved / scale).tolist()
    fitted = batch * length / (terms @ np.array([a, c, q]))
    points = [
        RatePoint(
            batch=b,
            tokens=n,
            rate=figure.median,
            low=figure.low,
            high=figure.high,
            fitted=float(rate),
            bound=figure.median / reached.median if reached else None,
        )
        for (b, n, figure, reached), rate in zip(measured, fitted, strict=True)
    ]
    errors = [abs(point.fitted / point.rate - 1) for point in points]
    lengths = sorted({n for _, n, *_ in measured})
    rates = {n: [(one.batch * n, one.rate) for one in points if one.tokens == n] for n in lengths}
    bounds = {n: [(one.batch * n, one.bound) for one in points if one.tokens == n and one.bound] for n in lengths}
    return Saturation(
        step_seconds=a,
        token_seconds=c,
        pair_seconds=q,
        share=share,
        tokens={n: a * share / ((1 - share) * (c + q * n)) for n in lengths if c + q * n > 0},
        measured_tokens={n: _fewest(rates[n], share) for n in lengths},
        bound_tokens={n: _fewest(bounds[n], share) for n in lengths if bounds[n]},
        points=points,
        median_error=median(errors),
        worst_error=max(errors),
    )


def _fewest(rates: list[tuple[int, float]], share: float) -> int:
    """Return the fewest tokens of a step whose rate is at least `share` of the best."""
    best = max(rate for _, rate in rates)
    return min(tokens for tokens, rate in rates if rate >= share * best)
