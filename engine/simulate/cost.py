"""Cost models of a simulated step: seconds as a function of the batch's shape."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from engine.accounting.shape import ModelShape, kv_shapes
from engine.accounting.work import attended_keys, read_keys
from engine.cache.attention_span import WindowPolicy, reaches_of

# attention window in keys (None: unlimited) -> share of the KV cache in layers with that window
Windows = Mapping[int | None, float]
FULL: Windows = {None: 1.0}


class StepShape(NamedTuple):
    """Features of a batch that determine its step time. Keys and pairs are means over the layers."""

    num_tokens: int  # computed tokens
    num_seqs: int
    num_keys: float  # distinct visible keys, over all sequences
    num_pairs: float  # pairs of query and visible key, over sequences that compute several tokens
    after_idle: bool = False  # whether the machine was idle before the step, so that processor caches are cold


def windows_of(facts: ModelShape, policy: WindowPolicy | None = None) -> Windows:
    """Return the windows of a model's layers, reduced by a window policy."""
    reaches = reaches_of(facts.sliding_windows or [None] * facts.num_layers, policy)
    sizes = [heads * (keys + values) for heads, keys, values in kv_shapes(facts)]
    if not sum(sizes):
        sizes = [1] * len(reaches)  # latent vectors have the same size in each layer
    found = Counter[int | None]()
    for reach, size in zip(reaches, sizes, strict=True):
        found[reach.num_keys] += size
    return {window: size / sum(sizes) for window, size in found.items()}


def shape_of(spans: Sequence[tuple[int, int]], windows: Windows = FULL, after_idle: bool = False) -> StepShape:
    """Return the shape of a step. `spans`: first position and number of computed tokens of each sequence."""
    num_keys = num_pairs = 0.0
    for window, share in windows.items():
        num_keys += share * sum([read_keys(start, count, window) for start, count in spans])
        num_pairs += share * sum([attended_keys(start, count, window) for start, count in spans if count > 1])
    return StepShape(sum([count for _, count in spans]), len(spans), num_keys, num_pairs, after_idle)


class StepCost(Protocol):
    """Time of a step, from its schedule to its last token. `source`: origin of the numbers, in a few words."""

    @property
    def source(self) -> str: ...
    def seconds(self, shape: StepShape) -> float: ...


class Fixed(NamedTuple):
    """Constant step time, as the queueing formulas assume."""

    step_seconds: float
    source: str = "a given time for each step"

    def seconds(self, shape: StepShape) -> float:
        return self.step_seconds


class Linear(NamedTuple):
    """Step time that is linear in each feature.

    DistServe's simulator has the same terms for decode, and the square of the number of tokens for prefill
    (github.com/LLMServe/DistServe, simdistserve).

        token_knots, token_seconds    time by number of tokens: piecewise linear, extrapolated with the last slope
        seq_seconds                   per sequence
        key_seconds                   per key read
        pair_seconds                  per query and key of a prefill
        idle_seconds                  added to a step after an idle time
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
        """Return the part of the time that depends only on the number of tokens."""
        knots, values = self.token_knots, self.token_seconds
        if len(knots) == 1:
            return values[0]
        index = min(max(bisect_right(knots, num_tokens) - 1, 0), len(knots) - 2)
        share = (num_tokens - knots[index]) / (knots[index + 1] - knots[index])
        return values[index] + share * (values[index + 1] - values[index])


def knots_up_to(num_tokens: int) -> list[int]:
    """Return 1, 2, 4, ... up to the first power of two >= `num_tokens`."""
    return [1 << power for power in range(max(1, math.ceil(math.log2(max(2, num_tokens)))) + 1)]


class Jittered:
    """Cost with jitter: the time of each step is that of `cost` times a random element of `ratios`."""

    def __init__(self, cost: StepCost, ratios: Sequence[float], seed: int = 0) -> None:
        self._cost, self._ratios = cost, list(ratios)
        self._draw = random.Random(seed)

    @property
    def source(self) -> str:
        return self._cost.source

    def seconds(self, shape: StepShape) -> float:
        return self._cost.seconds(shape) * self._draw.choice(self._ratios)
