"""Ratios are taken inside a round, so what slows a whole round down cancels out."""

import numpy as np
import pytest

from engine.bench import interleave as module
from engine.bench.interleave import bootstrap_interval, interleave


class Clock:
    """Seconds pass only when a variant says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(module, "time", fake)
    return fake


def test_the_ratio_is_free_of_drift_that_both_share(clock: Clock) -> None:
    """Each run is 1 % slower than the one before; one variant takes twice as long as the other."""
    calls: list[str] = []

    def variant(name: str, seconds: float):
        def run() -> int:
            calls.append(name)
            clock.now += seconds * (1 + len(calls) / 100)
            return 10

        return run

    result = interleave("job", "slow", {"slow": variant("slow", 2.0), "fast": variant("fast", 1.0)}, rounds=8)
    slow, fast = result.variants
    assert (slow.name, slow.ratio, slow.ratio_interval) == ("slow", 1.0, (1.0, 1.0))
    assert 1.9 < fast.ratio_interval[0] <= fast.ratio <= fast.ratio_interval[1] < 2.1
    assert len(slow.seconds) == len(fast.seconds) == 8
    assert calls[:2] == ["slow", "fast"], "everyone is warmed up once, and that run does not count"


def test_rates_are_tokens_over_seconds(clock: Clock) -> None:
    def run() -> int:
        clock.now += 4.0
        return 10

    (only,) = interleave("job", "only", {"only": run}, rounds=3).variants
    assert (only.tokens_per_second, only.tokens, only.ratio) == (2.5, 10, 1.0)


def test_the_interval_holds_the_median_and_is_repeatable() -> None:
    values = np.array([1.0, 1.1, 1.2, 1.3, 5.0])
    low, high = bootstrap_interval(values, seed=0)
    assert low <= 1.2 <= high
    assert (low, high) == bootstrap_interval(values, seed=0)
