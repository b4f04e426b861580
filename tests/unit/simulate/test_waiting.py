"""The M/D/1 queue agrees with its known mean, a direct simulation, and its limits."""

import functools
import itertools
import math
from itertools import count, product, takewhile
from typing import Any

import numpy as np
import pytest

from engine.simulate.waiting import highest_rate, share_within


@functools.cache
def simulated_waits(load: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return waits of a queue with service time 1, by Lindley's recursion: W' = max(0, W + 1 − gap)."""
    gaps = np.random.default_rng(7).exponential(1 / load, 400_000)
    walk = np.concatenate([[0.0], np.cumsum(1 - gaps)])
    return walk - np.minimum.accumulate(walk)


def erlang(load: float, wait: float) -> float:
    """Return (1 − ρ) Σ (ρ(j − t))ʲ / j! · exp(−ρ(j − t)), j = 0 … ⌊t⌋: alternating terms, exact for short waits."""
    terms = [(load * (j - wait)) ** j / math.factorial(j) * math.exp(-load * (j - wait)) for j in range(int(wait) + 1)]
    return (1 - load) * math.fsum(terms)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.85])
@pytest.mark.parametrize("wait", [0.0, 0.4, 1.0, 1.7, 4.0, 9.5])
def test_the_share_within_a_wait_is_that_of_a_simulated_queue(load: float, wait: float) -> None:
    """A share has an error of about 0.005 at the highest load, as the waits of 400,000 requests are correlated."""
    assert share_within(load, 1.0, wait) == pytest.approx(float(np.mean(simulated_waits(load) <= wait)), abs=0.01)


def test_waiting_follows_erlangs_formula() -> None:
    for wait, load in product([0.0, 0.5, 0.999, 1.0, 1.001, 3.25, 8.0], [0.05, 0.5, 0.99]):
        assert share_within(load / 0.25, 0.25, wait * 0.25) == pytest.approx(erlang(load, wait), abs=1e-10)


def test_the_share_that_does_not_wait_is_one_minus_the_load() -> None:
    """P(W = 0) = 1 − load, as in every queue with Poisson arrivals."""
    for load in [0.1, 0.5, 0.9]:
        assert share_within(load, 1.0, 0.0) == pytest.approx(1 - load)


@pytest.mark.parametrize("load", [0.2, 0.7, 0.95])
def test_the_mean_wait_follows_the_pollaczek_khinchine_formula(load: float) -> None:
    """E[W] = ∫ P(W > t) dt = R · S² / (2 · (1 − load)), by the midpoint rule in steps of an eighth of a service time
    of 2 s."""
    step, mean = 0.25, load / 2 * 4 / (2 * (1 - load))
    tails = (1 - share_within(load / 2, 2.0, step * (i + 0.5)) for i in count())
    assert step * sum(takewhile(lambda tail: tail > 1e-6, tails)) == pytest.approx(mean, rel=1e-3)


@pytest.mark.parametrize("load", [0.5, 0.9, 0.995])
def test_the_tail_of_waiting_times_is_exponential(load: float) -> None:
    """P(W > t) falls by e^(−θ) a service time, where θ is the root above 0 of ρ(e^(θ) − 1) = θ."""
    low, high = 1e-6, 30.0
    while (theta := (low + high) / 2) not in (low, high):
        low, high = (theta, high) if load * math.expm1(theta) < theta else (low, theta)
    start = min(70.0, 12 / theta)  # beyond the queue lengths that are computed one by one
    tails = [1 - share_within(load, 1.0, start + i) for i in range(3)]
    assert [b / a for a, b in itertools.pairwise(tails)] == pytest.approx([math.exp(-theta)] * 2, rel=1e-3)


@pytest.mark.parametrize("seconds", [0.0, 0.1, 3.0, 40.0, 2000.0])
def test_a_rate_above_the_highest_rate_misses_the_share(seconds: float) -> None:
    rate = highest_rate(0.5, seconds, 0.9)
    assert share_within(rate, 0.5, seconds) >= 0.9 > share_within(min(rate * 1.001, 1.9999999), 0.5, seconds) - 1e-9
    assert 0.2 - 1e-9 <= rate < 2  # at load 0.1, nine of ten requests find the queue empty


def test_with_a_negative_wait_no_rate_is_low_enough() -> None:
    assert highest_rate(0.5, -0.01, 0.9) == 0.0
    assert share_within(0.1, 0.5, -0.01) == 0.0
    assert share_within(0.0, 0.5, 0.0) == 1.0


@pytest.mark.parametrize(
    ("rate", "service", "error"),
    [
        (2.0, 0.5, "without end"),
        (-1, 0.5, "0 or more"),
        (math.inf, 1, "0 or more"),
        (1, 0, "above 0"),
        (1, math.nan, "a"),
    ],
)
def test_an_invalid_queue_is_refused(rate: float, service: float, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        share_within(rate, service, 1.0)


@pytest.mark.parametrize("share", [0.0, 1.0, 1.5])
def test_an_invalid_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        highest_rate(1.0, 1.0, share)
