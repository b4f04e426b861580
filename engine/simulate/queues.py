"""TTFT of prefill as a queue, on one GPU and on several (DistServe, arXiv 2401.09670 v3, section 3.1).

Requests arrive by a Poisson process of rate R, and each takes one GPU D seconds to prefill. All three arrangements are
M/D/1 queues that differ in two numbers: the latency of a request, and the time until the next one can begin.

    one      D and D
    inter    D and D/n     n pipeline stages; as in the paper, equal stages and free transfers
    intra    D/K and D/K   tensor parallelism over n GPUs, with speed-up K

The paper has n = 2 and 1 < K < 2. Its expression for stages holds for n equal stages, and K is a parameter for any n.
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.impossible import impossible
from engine.simulate import waiting

Arrangement = Literal["one", "inter", "intra"]
ARRANGEMENTS: tuple[Arrangement, ...] = ("one", "inter", "intra")
FORMULAS = {
    "one": "D + R · D² / (2 · (1 − R · D))",
    "inter": "D + R · D² / (2 · n · (n − R · D))",
    "intra": "D / K + R · D² / (2 · K · (K − R · D))",
}
SYMBOLS: dict[Arrangement, str] = {"one": "RD", "inter": "RDn", "intra": "RDK"}


class Prefill(Struct, frozen=True, kw_only=True):
    """Prefill arrangement: `service` is D in seconds, `speedup` K of `gpus` n."""

    service: float
    gpus: int = 2
    speedup: float = 1.5

    def checked(self) -> Prefill:
        """Validate and return the arrangement.

        Raises:
            ValueError: a value is invalid; one sentence.
        """
        if not (self.service > 0 and math.isfinite(self.service)):
            raise ValueError("a prefill must take longer than 0 s")
        if self.gpus < 2:
            raise ValueError(f"an arrangement of several GPUs needs at least 2, not {self.gpus}")
        if not 1 < self.speedup <= self.gpus:
            raise impossible("speedup", gpus=self.gpus, speedup=self.speedup)
        return self

    def under_way(self, arrangement: Arrangement) -> float:
        """Return the seconds from the beginning of a request's prefill to its first token."""
        return self.service / self.speedup if arrangement == "intra" else self.service

    def slot(self, arrangement: Arrangement) -> float:
        """Return the seconds from the beginning of a request's prefill until the next can begin."""
        return {"one": self.service, "inter": self.service / self.gpus, "intra": self.service / self.speedup}[
            arrangement
        ]

    def most(self, arrangement: Arrangement) -> float:
        """Return the upper bound of R · D: the throughput in units of one GPU's."""
        return {"one": 1.0, "inter": float(self.gpus), "intra": self.speedup}[arrangement]

    def num_gpus(self, arrangement: Arrangement) -> int:
        """Return the number of GPUs."""
        return 1 if arrangement == "one" else self.gpus


def mean_ttft(prefill: Prefill, arrangement: Arrangement, rate: float) -> Derived:
    """Return the mean TTFT in seconds at `rate` requests per second.

    Raises:
        ValueError: the queue is unstable, or the prefill is invalid.
    """
    prefill.checked()
    _check_load(prefill, arrangement, rate)
    values = {"D": prefill.service, "R": rate, "n": prefill.gpus, "K": prefill.speedup}
    factors = [Factor(symbol, values[symbol], MEANINGS[symbol]) for symbol in SYMBOLS[arrangement]]
    return derive(f"ttft_{arrangement}", "s", FORMULAS[arrangement], *factors)


MEANINGS = {"D": "service_time", "R": "arrival_rate", "n": "gpus", "K": "speedup"}


def share_within(prefill: Prefill, arrangement: Arrangement, rate: float, ttft: float) -> float:
    """Return the share of requests with a first token within `ttft` seconds: P(wait ≤ TTFT − latency).

    Raises:
        ValueError: as `mean_ttft`.
    """
    prefill.checked()
    _check_load(prefill, arrangement, rate)
    return waiting.share_within(rate, prefill.slot(arrangement), ttft - prefill.under_way(arrangement))


def highest_rate(prefill: Prefill, arrangement: Arrangement, ttft: float, share: float = 0.9) -> float:
    """Return the highest rate at which `share` of the requests have their first token within `ttft`; 0: no rate.

    Raises:
        ValueError: the prefill or the share is invalid.
    """
    left = ttft - prefill.checked().under_way(arrangement)
    return waiting.highest_rate(prefill.slot(arrangement), left, share)


def crossing(prefill: Prefill) -> float | None:
    """Return R · D at which both have the same mean TTFT: below it intra is faster, above it inter.

    The difference grows with the load, so the crossing is unique. None: with K = n intra is always faster.
    """
    n, k = prefill.checked().gpus, prefill.speedup
    if k == n:
        return None

    def ahead(load: float) -> float:  # advantage of intra, in units of D
        return 1 + load / (2 * n * (n - load)) - 1 / k - load / (2 * k * (k - load))

    low, high = 0.0, k
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if ahead(middle) > 0 else (low, middle)
    return low


def _check_load(prefill: Prefill, arrangement: Arrangement, rate: float) -> None:
    if not (rate >= 0 and math.isfinite(rate)):
        raise ValueError("a rate of requests must be 0 or more")
    load, most = rate * prefill.service, prefill.most(arrangement)
    if load >= most:
        raise impossible("queue_grows", load=load, most=most)
