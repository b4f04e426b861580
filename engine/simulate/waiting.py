"""How long a request waits in an M/D/1 queue: Poisson arrivals, one service time, first come first served.

The distribution is Franx's ("A simple solution for the M/D/c waiting time distribution", Operations Research Letters
29, 2001), whose terms are all positive, so nothing cancels as it does in Erlang's and Crommelin's alternating sums.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate

EXACT = 64  # numbers of customers that are computed one by one; beyond, each is the same part of the one before
TAPS = 40  # a Poisson variable of mean < 1 exceeds 40 with a probability below 1e-49
SEARCH = 40  # halvings of what a rate can be: to a trillionth of it


def share_within(rate: float, service: float, seconds: float) -> float:
    """P(W ≤ seconds): the share of requests that wait at most so long, in the long run.

    Raises:
        ValueError: the queue would grow without end.
    """
    _check(rate, service)
    if seconds < 0:
        return 0.0
    if rate == 0:
        return 1.0
    load = rate * service
    slots = math.floor(seconds / service) + 1  # (slots − 1) · S ≤ seconds < slots · S
    left = min(load, max(0.0, rate * (slots * service - seconds)))
    at_most = _customers(load)
    term, found = math.exp(-left), 0.0
    for j in range(min(slots, TAPS)):
        found += term * at_most(slots - j)  # at most slots − 1 − j in the queue: one more is being served
        term *= left / (j + 1)
    return min(1.0, found)


def within(rate: float, service: float, share: float) -> float:
    """Return the seconds that `share` of the requests wait at most: the inverse of `share_within`.

    Raises:
        ValueError: the queue would grow without end, or no share between 0 and 1.
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


@lru_cache(maxsize=1 << 16)  # a search over instances asks for the same ones again at every rate
def highest_rate(service: float, seconds: float, share: float) -> float:
    """Requests a second up to which `share` of them wait at most so long; 0 where that is not to be had.

    Raises:
        ValueError: no service time, or no share between 0 and 1.
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


@lru_cache(maxsize=1 << 8)  # of one load many times are asked for
class _customers:
    """P(at most n customers are there, the one being served counted too), by the load.

    p(j) · (1 − a(0)) = a(j − 1) · p(0) + Σ a(j − k) · p(k), k = 1 … j − 1, where a(n) is the probability that more than
    n arrive while one is served (Tijms, "A First Course in Stochastic Models", 9.2). Every term is positive.
    """

    def __init__(self, load: float) -> None:
        more = _poisson_tails(load)
        there = [1 - load]
        for j in range(1, EXACT + 1):
            sum_of = more[j - 1] * there[0] if j <= TAPS else 0.0
            sum_of += sum(more[j - k] * there[k] for k in range(max(1, j - TAPS + 1), j))
            there.append(sum_of / (1 - more[0]))
        self._at_most = list(accumulate(there))
        self._ratio = there[-1] / there[-2] if there[-2] else 0.0
        self._more = there[-1] * self._ratio / (1 - self._ratio) if self._ratio < 1 else 0.0

    def __call__(self, number: int) -> float:
        if number < EXACT:
            return self._at_most[number]
        return 1 - self._more * self._ratio ** (number - EXACT)


def _poisson_tails(mean: float) -> list[float]:
    """P(N > n) for n = 0 … TAPS − 1, N Poisson; each sum begins with its smallest term."""
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
        raise ValueError(f"at a load of {rate * service:.3g} the queue grows without end: it must stay below 1")


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"a share of requests lies between 0 and 1, not at {share:g}")
