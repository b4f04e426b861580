"""Median over several runs and its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

RESAMPLES = 2000


class Estimate(Struct, frozen=True, kw_only=True):
    """Median over rounds with its 95 % interval."""

    median: float
    low: float
    high: float


def estimate(samples: Sequence[float], seed: int = 0) -> Estimate:
    """Return the median and its percentile bootstrap interval (Efron, 2,000 resamples).

    With five rounds or fewer the interval is the range of the rounds.
    """
    values = np.asarray(samples, dtype=float)
    low, high = bootstrap_interval(values, seed) if len(values) > 5 else (values.min(), values.max())
    return Estimate(median=rounded(float(np.median(values))), low=rounded(float(low)), high=rounded(float(high)))


def bootstrap_interval(values: np.ndarray[Any, np.dtype[np.float64]], seed: int) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the median."""
    generator = np.random.default_rng(seed)
    medians = np.median(generator.choice(values, (RESAMPLES, len(values))), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(low), float(high)


def rounded(value: float) -> float:
    """Round to six significant digits, the precision of a clock."""
    return float(f"{value:.6g}")
