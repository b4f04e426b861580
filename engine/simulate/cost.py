"""Cost models of a simulated step: seconds by the shape of its batch."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engine.accounting.work import attended_keys
from engine.scheduling.step import ScheduledSequence


class StepShape(NamedTuple):
    """Features of a batch that determine its time."""

    num_tokens: int  # computed
    num_seqs: int
    num_keys: int  # distinct keys that its sequences see, over all
    num_pairs: int  # of a query and a key that it sees, over sequences that compute several tokens
    after_idle: bool = False  # nothing was done before it: processor and caches have turned to other things


def shape_of(scheduled: Sequence[ScheduledSequence], after_idle: bool = False) -> StepShape:
    """Return the shape of a step whose layers see all keys."""
    num_tokens = num_keys = num_pairs = 0
    for _, start, count in scheduled:
        num_tokens += count
        num_keys += start + count
        if count > 1:
            num_pairs += attended_keys(start, count, None)
    return StepShape(num_tokens, len(scheduled), num_keys, num_pairs, after_idle)


class StepCost(Protocol):
    """Seconds of a step, from its schedule to its last token. `source`: where its numbers come from, in a few words."""

    @property
    def source(self) -> str: ...
    def seconds(self, shape: StepShape) -> float: ...


class Fixed(NamedTuple):
    """The same for every step, whatever is in it: what the formulas of queues assume."""

    step_seconds: float
    source: str = "a given time for each step"

    def seconds(self, shape: StepShape) -> float:
        return self.step_seconds


class Linear(NamedTuple):
    """Seconds that grow with each of a step's four numbers: DistServe's simulator has the same terms for prefill, with
    the square of the tokens, and for decode (github.com/LLMServe/DistServe, simdistserve).

        token_knots, token_seconds    time by the number of tokens: straight between the knots, by the last slope after
        seq_seconds                   more for each sequence
        key_seconds                   for each key that is read
        pair_seconds                  for each query and key of a prefill
        idle_seconds                  more for a step before which nothing was done
    """

    token_knots: list[int]
    token_seconds: list[float]
    seq_seconds: float
    key_seconds: float
    pair_seconds: float
    source: str
    idle_seconds: float = 0.0

    def seconds(self, shape: StepShape) -> float:
        return (
            self.of_tokens(shape.num_tokens)
            + self.seq_seconds * shape.num_seqs
            + self.key_seconds * shape.num_keys
            + self.pair_seconds * shape.num_pairs
            + self.idle_seconds * shape.after_idle
        )

    def of_tokens(self, num_tokens: int) -> float:
        """Return the part that depends on their number alone."""
        knots, values = self.token_knots, self.token_seconds
        if len(knots) == 1:
            return values[0]
        index = min(max(bisect_right(knots, num_tokens) - 1, 0), len(knots) - 2)
        share = (num_tokens - knots[index]) / (knots[index + 1] - knots[index])
        return values[index] + share * (values[index + 1] - values[index])


def knots_up_to(most: int) -> list[int]:
    """1, 2, 4, ... to the first power of two that is not under `most`."""
    return [1 << power for power in range(max(1, math.ceil(math.log2(max(2, most)))) + 1)]


class Jittered:
    """Cost with jitter: each step takes the seconds of `cost` times a random one of `ratios`."""

    def __init__(self, cost: StepCost, ratios: Sequence[float], seed: int = 0) -> None:
        self._cost, self._ratios = cost, list(ratios)
        self._draw = random.Random(seed)

    @property
    def source(self) -> str:
        return self._cost.source

    def seconds(self, shape: StepShape) -> float:
        return self._cost.seconds(shape) * self._draw.choice(self._ratios)
