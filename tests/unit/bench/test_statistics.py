"""Medians, intervals and ratios."""

import numpy as np
import pytest

from engine.bench.figures import figures
from engine.bench.findings import off_a_line, saturation
from engine.bench.record import Figure, Point
from engine.bench.statistics import bootstrap_interval, estimate


def test_the_interval_contains_the_median_and_is_reproducible() -> None:
    values = np.array([1.0, 1.1, 1.2, 1.3, 5.0])
    low, high = bootstrap_interval(values, seed=0)
    assert low <= 1.2 <= high
    assert (low, high) == bootstrap_interval(values, seed=0)


def test_the_interval_of_few_rounds_is_their_range() -> None:
    found = estimate([3.0, 1.0, 2.0])
    assert (found.median, found.low, found.high) == (2.0, 1.0, 3.0)


def test_the_interval_covers_the_true_median_at_its_nominal_rate() -> None:
    """About 95 % of the intervals of 300 samples of 11 rounds contain the true median (at least 90 % are required)."""
    draw = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        found = estimate(draw.lognormal(0, 0.2, 11).tolist())
        covered += found.low <= 1.0 <= found.high
    assert covered >= 270


def test_a_ratio_is_free_of_drift_common_to_both_variants() -> None:
    """Every round takes 1.5 times as long as the previous one, and one variant twice as long as the other."""
    slow = [2.0 * 1.5**n for n in range(8)]
    fast = [1.0 * 1.5**n for n in range(8)]
    found = figures({"seconds": fast}, {"slow": {"seconds": slow}}, seed=0)["seconds"]  # type: ignore[dict-item]
    ratio = found.ratios["slow"]
    assert (ratio.median, ratio.low, ratio.high) == pytest.approx((0.5, 0.5, 0.5), rel=1e-5)
    assert found.high / found.low > 2, "the seconds themselves do not agree"


def test_undefined_metrics_are_omitted_and_equal_rounds_merged() -> None:
    found = figures({"waste": [0.1, None], "flops": [7.0, 7.0]}, {}, seed=0)
    assert set(found) == {"flops"} and found["flops"].samples == [7.0]


def test_a_baseline_of_zero_gives_no_ratio() -> None:
    assert figures({"preemptions": [3.0]}, {"b": {"preemptions": [0.0]}}, 0)["preemptions"].ratios == {}


def test_saturation_is_the_first_value_at_a_share_of_the_best() -> None:
    """The rates are 10, 50, 91, 100, 95, and 90 % of the best is first reached at 4."""

    def point(at: int, rate: float) -> Point:
        return Point(at=at, variant="v", figures={"rate": Figure(median=rate, low=rate, high=rate, samples=[rate])})

    points = [point(1, 10), point(2, 50), point(4, 91), point(8, 100), point(16, 95)]
    assert saturation(points, "rate", 0.9) == pytest.approx(4)
    assert saturation([], "rate", 0.9) is None
    assert saturation(points[:3], "rate", 0.9) is None  # the rate may still grow after the last value


def test_the_largest_deviation_from_a_line_is_found() -> None:
    """The points are 2 + 3 · at. If the middle one is 10 % higher, it deviates by a little more than 5 % from the best
    line.
    """

    def point(at: int, seconds: float) -> Point:
        figure = Figure(median=seconds, low=seconds, high=seconds, samples=[seconds])
        return Point(at=at, variant="v", figures={"seconds": figure})

    line = [point(at, 2 + 3 * at) for at in (64, 256, 1024)]
    assert off_a_line(line, "seconds") == pytest.approx(0, abs=1e-9)
    assert off_a_line(line[:2], "seconds") is None
    bent = off_a_line([line[0], point(256, 1.1 * (2 + 3 * 256)), line[2]], "seconds")
    assert bent is not None and 0.03 < bent < 0.1
    square = [point(at, at**2) for at in (64, 256, 1024, 4096)]
    assert (off_a_line(square, "seconds") or 0) > 0.5
