"""Counts of a model over all its runs since the server started. They never decrease."""

from __future__ import annotations

import threading
from bisect import bisect_left
from itertools import accumulate

from app.metrics.buckets import Buckets, tokens_up_to
from app.metrics.names import METRICS, TOKENS, Metric


class Histogram:
    """Number of observations by bucket, of which the last has no bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Buckets) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value. A value equal to an upper bound belongs to its bucket (`le`)."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """Return pairs of an upper bound and the number of observations up to it; the last bound is +Inf."""
        bounds = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        return [(bound, float(upto)) for bound, upto in zip(bounds, accumulate(self.counts), strict=True)]


class Tally:
    """Counters and histograms by name. Consistent access to several of them needs `lock`."""

    def __init__(self, max_tokens: int) -> None:
        """`max_tokens`: number of positions of the model, which no run's max_model_len exceeds."""
        self.lock = threading.Lock()
        self.counters: dict[str, dict[tuple[str, ...], float]] = {
            metric.name: dict.fromkeys(metric.values, 0.0) for metric in METRICS if metric.kind == "counter"
        }
        token_bounds = tokens_up_to(max_tokens)
        self.histograms: dict[str, Histogram] = {
            metric.name: Histogram(token_bounds if metric.buckets == TOKENS else tuple(map(float, metric.buckets)))
            for metric in METRICS
            if metric.kind == "histogram"
        }

    def add(self, counter: Metric, amount: float = 1, *labels: str) -> None:
        """Add to a counter. Raises KeyError for an unknown label value."""
        self.counters[counter.name][labels] += amount

    def observe(self, histogram: Metric, value: float) -> None:
        self.histograms[histogram.name].observe(value)
