"""Mean TTFT of prefill as an M/D/1 queue, on one or several GPUs (DistServe, arXiv 2401.09670 v3, section 3.1).

Requests arrive by a Poisson process of rate R, and one GPU prefills each in D seconds. The three arrangements are M/D/1
queues with two parameters: the latency of a request, and the time until the next request can begin.

    one      D and D
    inter    D and D/n     n equal pipeline stages; as in the paper, transfers take no time
    intra    D/K and D/K   tensor parallelism over n GPUs, with speed-up K

The paper has n = 2 and 1 < K < 2. Both formulas hold for any n.
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
    """Prefill on several GPUs. `service`: D in seconds; `gpus`: n; `speedup`: K."""

    service: float
    gpus: int = 2
    speedup: float = 1.5

    def checked(self) -> Prefill:
        """Validate the values and return self.

        Raises:
            ValueError: a value is invalid.
        """
        if not (self.service > 0 and math.isfinite(self.service)):
            raise ValueError("a prefill must take longer than 0 s")
        if self.gpus < 2:
            raise ValueError(f"an arrangement of several GPUs needs at least 2, not {self.gpus}")
        if not 1 < self.speedup <= self.gpus:
            raise impossible("speedup", gpus=self.gpus, speedup=self.speedup)
        return self

    def latency(self, arrangement: Arrangement) -> float:
        """Return the seconds from the beginning of a request's prefill to its first token."""
        return self.service / self.speedup if arrangement == "intra" else self.service

    def slot(self, arrangement: Arrangement) -> float:
        """Return the seconds from the beginning of a request's prefill until the next request can begin."""
        return {"one": self.service, "inter": self.service / self.gpus, "intra": self.service / self.speedup}[
            arrangement
        ]

    def max_load(self, arrangement: Arrangement) -> float:
        """Return the upper bound of R · D, which is the throughput in units of one GPU's throughput."""
        return {"one": 1.0, "inter": float(self.gpus), "intra": self.speedup}[arrangement]

    def num_gpus(self, arrangement: Arrangement) -> int:
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
    """Return the share of requests whose first token comes within `ttft` seconds: P(wait ≤ TTFT − latency).

    Raises:
        ValueError: as `mean_ttft`.
    """
    prefill.checked()
    _check_load(prefill, arrangement, rate)
    return waiting.share_within(rate, prefill.slot(arrangement), ttft - prefill.latency(arrangement))


def highest_rate(prefill: Prefill, arrangement: Arrangement, ttft: float, share: float = 0.9) -> float:
    """Return the highest rate at which `share` of the first tokens come within `ttft` seconds; 0 if there is none.

    Raises:
        ValueError: the prefill or the share is invalid.
    """
    left = ttft - prefill.checked().latency(arrangement)
    return waiting.highest_rate(prefill.slot(arrangement), left, share)


def crossing(prefill: Prefill) -> float | None:
    """Return R · D at which intra and inter have the same mean TTFT. Below it intra is faster, above it inter.

    The difference increases with the load, so the crossing is unique. Returns None if K = n: intra is always faster.
    """
    n, k = prefill.checked().gpus, prefill.speedup
    if k == n:
        return None

    def advantage(load: float) -> float:  # advantage of intra, in units of D
        return 1 + load / (2 * n * (n - load)) - 1 / k - load / (2 * k * (k - load))

    low, high = 0.0, k
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if advantage(middle) > 0 else (low, middle)
    return low


def _check_load(prefill: Prefill, arrangement: Arrangement, rate: float) -> None:
    if not (rate >= 0 and math.isfinite(rate)):
        raise ValueError("a rate of requests must be 0 or more")
    load, max_load = rate * prefill.service, prefill.max_load(arrangement)
    if load >= max_load:
        raise impossible("queue_grows", load=load, most=max_load)
