"""Regressions between two records of a scenario.

Ratios are compared, not seconds, so the records may come from different machines.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.bench.record import Figure, MetricInfo, Record
from engine.bench.statistics import Estimate

THRESHOLD = 0.1


@dataclass(frozen=True, slots=True)
class Difference:
    """Change of a figure between two records. `change`: relative regression, 0.1 = worse by a tenth."""

    scenario: str
    at: str
    variant: str
    metric: str
    against: str  # the baseline of a ratio; "" for a count
    before: Estimate
    after: Estimate
    change: float
    worse: bool


def compare(before: Record, after: Record, threshold: float = THRESHOLD, counts_only: bool = False) -> list[Difference]:
    """Return every comparable figure of both records.

    A clock metric is compared by its ratio to a baseline of the same run, and is worse if the medians differ by more
    than the threshold and the intervals do not overlap. A count is compared directly, and is worse beyond the threshold
    or if it was 0 before.
    """
    found = []
    for old in before.points:
        new = after.point(old.at, old.variant)
        if new is None:
            continue
        for name, figure in old.figures.items():
            info, other = before.metrics[name], new.figures.get(name)
            if other is None or info.better is None:
                continue
            where = (after.scenario.id, str(old.at), old.variant, name)
            for against, old_value, new_value in _pairs(info, figure, other, counts_only):
                change = worsening(old_value.median, new_value.median, info.better == "higher")
                disjoint = new_value.low > old_value.high or new_value.high < old_value.low
                worse = change > threshold and (disjoint or info.source == "count")
                found.append(Difference(*where, against, old_value, new_value, change, worse))
    return found


def lost_points(before: Record, after: Record) -> list[str]:
    """Return a sentence for each point that has lost its figures, or whose outputs are no longer identical."""
    found = []
    for old in before.points:
        new = after.point(old.at, old.variant)
        where = f"{after.scenario.id}, {old.at}, {old.variant}"
        if old.figures and (new is None or not new.figures):
            found.append(f"{where}: no figures any more" + (f" ({new.failed})" if new and new.failed else ""))
        elif old.tokens_identical and new is not None and new.tokens_identical is False:
            found.append(f"{where}: the outputs are not identical any more")
    return found


def worsening(before: float, after: float, higher_is_better: bool) -> float:
    """Return the relative regression of a figure; negative = better, infinite for an increase from 0."""
    if before == after:
        return 0.0
    if higher_is_better:
        before, after = after, before
    return after / before - 1 if before else float("inf")


def _pairs(info: MetricInfo, old: Figure, new: Figure, counts_only: bool) -> list[tuple[str, Estimate, Estimate]]:
    if info.source == "count":
        return [("", _estimate(old), _estimate(new))]
    if counts_only:
        return []
    return [(name, ratio, new.ratios[name]) for name, ratio in old.ratios.items() if name in new.ratios]


def _estimate(figure: Figure) -> Estimate:
    return Estimate(median=figure.median, low=figure.low, high=figure.high)
