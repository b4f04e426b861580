"""Findings for a scenario's headlines, from its points."""

from __future__ import annotations

import numpy as np

from engine.bench.metrics import METRICS
from engine.bench.record import Finding, Point
from engine.bench.scenario import Headline, Scenario
from engine.bench.statistics import Estimate


def findings(scenario: Scenario, points: list[Point]) -> list[Finding]:
    """Return the finding of every headline whose figures exist."""
    found = (_finding(headline, points) for headline in scenario.headlines)
    return [finding for finding in found if finding is not None]


def _finding(headline: Headline, points: list[Point]) -> Finding | None:
    own = [point for point in points if point.variant == headline.variant and headline.metric in point.figures]
    if headline.saturates is not None:
        value = saturation(own, headline.metric, headline.saturates)
        return None if value is None else _judged(headline, value, None, "")
    if headline.off_a_line:
        value = off_a_line(own, headline.metric)
        return None if value is None else _judged(headline, value, None, "")
    point = next((point for point in own if point.at == headline.at), None)
    if point is None:
        return None
    figure = point.figures[headline.metric]
    if headline.against is None:
        estimate = Estimate(median=figure.median, low=figure.low, high=figure.high)
        return _judged(headline, estimate.median, estimate, METRICS[headline.metric].unit)
    ratio = figure.ratios.get(headline.against)
    return None if ratio is None else _judged(headline, ratio.median, ratio, "×")


def saturation(points: list[Point], metric: str, share: float) -> float | None:
    """Return the smallest axis value whose median reaches `share` of the largest median.

    Returns None without numbers, or if it is the last value of the axis, beyond which medians may be larger.
    """
    medians = [(p.at, p.figures[metric].median) for p in points if isinstance(p.at, (int, float))]
    if not medians:
        return None
    best = max(value for _, value in medians)
    found = min(at for at, value in medians if value >= share * best)
    return None if found == max(at for at, _ in medians) else float(found)


def off_a_line(points: list[Point], metric: str) -> float | None:
    """Return the largest |measured / fitted − 1|; None with fewer than three points.

    A straight line over the axis is fitted to the medians by least squares of relative errors.
    """
    medians = [(p.at, p.figures[metric].median) for p in points if isinstance(p.at, (int, float))]
    if len(medians) < 3:
        return None
    at, seconds = np.array(medians, dtype=float).T
    slope, begin = np.polyfit(at, seconds, 1, w=1 / seconds)
    return float(np.max(np.abs(seconds / (begin + slope * at) - 1)))


def _judged(headline: Headline, value: float, estimate: Estimate | None, unit: str) -> Finding:
    """Compare a headline's bar with the median, or for `agrees` with the interval."""
    bar, met = "", None
    if headline.agrees and estimate is not None:
        bar, met = "holds 1", estimate.low <= 1 <= estimate.high
    elif headline.within is not None:
        bar, met = f"1 ± {headline.within:g}", abs(value - 1) <= headline.within
    elif headline.at_least is not None:
        bar, met = f"≥ {headline.at_least:g}", value >= headline.at_least
    elif headline.at_most is not None:
        bar, met = f"≤ {headline.at_most:g}", value <= headline.at_most
    return Finding(
        title=headline.title,
        value=value,
        low=estimate.low if estimate else None,
        high=estimate.high if estimate else None,
        unit=unit,
        bar=bar,
        met=met,
        metric=headline.metric,
    )
