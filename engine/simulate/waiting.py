"""Waiting time in an M/D/1 queue (Poisson arrivals, constant service time, first come first served).

The formula is Franx's ("A simple solution for the M/D/c waiting time distribution", Operations Research Letters 29,
2001). All its terms are positive, which avoids the cancellation in Erlang's and Crommelin's alternating sums.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate

EXACT = 64  # probabilities of up to 64 customers are exact; beyond, a geometric tail is assumed
TAPS = 40  # a Poisson variable of mean < 1 exceeds 40 with a probability below 1e-49
SEARCH = 40  # bisection steps: relative precision 1e-12


def share_within(rate: float, service: float, seconds: float) -> float:
    """Return P(W ≤ seconds), the share of requests that wait at most `seconds`.

    Raises:
        ValueError: the queue is unstable.
    """
    _check(rate, service)
    if seconds < 0:
        return 0.0
    if rate == 0:
        return 1.0
    load = rate * service
    slots = math.floor(seconds / service) + 1  # (slots − 1) · S ≤ seconds < slots · S
    left = min(load, max(0.0, rate * (slots * service - seconds)))
    at_most = _CustomerDistribution(load)
    term, found = math.exp(-left), 0.0
    for j in range(min(slots, TAPS)):
        found += term * at_most(slots - j)  # one customer is being served, so at most slots − 1 − j wait
        term *= left / (j + 1)
    return min(1.0, found)


def within(rate: float, service: float, share: float) -> float:
    """Return the waiting time that `share` of the requests do not exceed. Inverse of `share_within`.

    Raises:
        ValueError: the queue is unstable, or the share is not between 0 and 1.
    """
    _check_share(share)
    high = service
    while share_within(rate, service, high) < share:
        high *= 2
    low = 0.0
    for _ in range(SEARCH):
        middle = (low + high) / 2
        low, high = (low, middle) if share_within(rate, service, middle) >= share else (middle, high)
    return 0.0 if share_within(rate, service, 0.0) >= share else high


@lru_cache(maxsize=1 << 16)  # searches over instances repeat the same calls
def highest_rate(service: float, seconds: float, share: float) -> float:
    """Return the highest rate at which `share` of the requests wait at most `seconds`; 0 if there is none.

    Raises:
        ValueError: the service time is not above 0, or the share is not between 0 and 1.
    """
    _check_share(share)
    _check(0.0, service)
    if seconds < 0:
        return 0.0
    low, high = 0.0, 1 / service
    for _ in range(SEARCH):
        middle = (low + high) / 2
        low, high = (middle, high) if share_within(middle, service, seconds) >= share else (low, middle)
    return low


@lru_cache(maxsize=1 << 8)  # each load is evaluated at many times
class _CustomerDistribution:
    """P(at most n customers in the system), including the one being served, for a load.

    p(j) · (1 − a(0)) = a(j − 1) · p(0) + Σ a(j − k) · p(k), k = 1 … j − 1, where a(n) is the probability of more than n
    arrivals during one service (Tijms, "A First Course in Stochastic Models", 9.2). Every term is positive.
    """

    def __init__(self, load: float) -> None:
        more = _poisson_tails(load)
        probabilities = [1 - load]
        for j in range(1, EXACT + 1):
            sum_of = more[j - 1] * probabilities[0] if j <= TAPS else 0.0
            sum_of += sum(more[j - k] * probabilities[k] for k in range(max(1, j - TAPS + 1), j))
            probabilities.append(sum_of / (1 - more[0]))
        self._at_most = list(accumulate(probabilities))
        self._ratio = probabilities[-1] / probabilities[-2] if probabilities[-2] else 0.0
        self._more = probabilities[-1] * self._ratio / (1 - self._ratio) if self._ratio < 1 else 0.0

    def __call__(self, number: int) -> float:
        if number < EXACT:
            return self._at_most[number]
        return 1 - self._more * self._ratio ** (number - EXACT)


def _poisson_tails(mean: float) -> list[float]:
    """Return P(N > n) for n = 0 … TAPS − 1 and Poisson N, summed from the smallest term for precision."""
    terms = [math.exp(-mean)]
    for n in range(1, TAPS + 20):
        terms.append(terms[-1] * mean / n)
    sums = list(accumulate(reversed(terms)))[::-1]
    return sums[1 : TAPS + 1]


def _check(rate: float, service: float) -> None:
    if not (service > 0 and math.isfinite(service)):
        raise ValueError("a service time must be above 0")
    if not (rate >= 0 and math.isfinite(rate)):
        raise ValueError("a rate of requests must be 0 or more")
    if rate * service >= 1:
        raise ValueError(f"at a load of {rate * service:.3g} the queue grows without end; it must stay below 1")


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"a share of requests must be between 0 and 1, not {share:g}")
