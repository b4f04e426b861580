"""Baseline n-gram model with interpolated, modified Kneser-Ney smoothing (Chen and Goodman, 1998) on the same tokens.

The highest order uses counts; lower orders use continuation counts (the number of different tokens before an n-gram).
Three discounts per order follow from the counts of counts. The discounted mass of an order goes to the next lower
order; that of the lowest order is distributed equally over all tokens. `order - 1` end-of-text tokens precede a
document, so no context reaches into the previous document.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.data import Tokens

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Order:
    """N-grams of one length. Key: number of the context (one token shorter) · vocabulary + token."""

    keys: Ints  # [G] sorted; the index of a key is the number of the n-gram
    counts: Ints  # [G] counts, or continuation counts below the highest order
    totals: Ints  # [C] per context: sum of the counts of its n-grams
    left: Floats  # [C] per context: discounted mass, which goes to the next lower order
    discounts: Floats  # [4] subtracted from counts of 0, 1, 2 and more


class NGram:
    """N-gram model, fitted on construction."""

    def __init__(self, documents: list[Tokens], vocabulary: int, end: int, order: int = 5) -> None:
        """Fit the model. `documents`: token ids, each with its end token. `end`: id that precedes a document."""
        self._vocabulary, self._end, self._order = vocabulary, end, order
        tokens, real = self._padded(documents)
        numbers = [tokens]  # number of the k-gram that ends at each position, k = 1, 2, …
        self._keys: list[Ints] = [np.arange(vocabulary)]
        for _ in range(order - 1):
            keys = np.zeros_like(tokens)
            keys[1:] = numbers[-1][:-1] * vocabulary + tokens[1:]
            unique, number = np.unique(keys, return_inverse=True)
            self._keys.append(unique)
            numbers.append(number)
        counts = np.bincount(numbers[-1][real], minlength=len(self._keys[-1]))
        orders = [self._fit(order, counts)]
        for k in range(order - 1, 0, -1):
            # one position of each counted (k+1)-gram, which adds a continuation to its suffix
            position = np.full(len(self._keys[k]), -1)
            position[numbers[k][real]] = np.flatnonzero(real)
            position = position[position >= 0]
            orders.append(self._fit(k, np.bincount(numbers[k - 1][position], minlength=len(self._keys[k - 1]))))
        self._orders = orders[::-1]

    def bits(self, documents: list[Tokens]) -> float:
        """Return the summed negative log-likelihood of all tokens except each document's first, in bits."""
        tokens, real = self._padded(documents)
        first = np.zeros_like(real)
        first[1:] = real[1:] & ~real[:-1]
        scored = np.flatnonzero(real & ~first)
        lowest = self._orders[0]
        counts = lowest.counts[tokens[scored]]
        taken = lowest.discounts[np.minimum(counts, 3)]
        chance = np.maximum(counts - taken, 0) / lowest.totals[0] + lowest.left[0] / self._vocabulary
        context = np.zeros_like(tokens)  # number of the (k-1)-gram that ends at each position; -1: unseen
        context[:] = tokens
        for k in range(2, self._order + 1):
            order, before = self._orders[k - 1], context[scored - 1]
            known = (before >= 0) & (order.totals[before] > 0)
            counts = self._count(order, before, tokens[scored])
            taken = order.discounts[np.minimum(counts, 3)]
            totals = np.maximum(order.totals[before], 1)
            higher = np.maximum(counts - taken, 0) / totals + order.left[before] / totals * chance
            chance = np.where(known, higher, chance)
            longer = np.full_like(context, -1)
            longer[1:] = self._number(order, context[:-1], tokens[1:])
            context = longer
        return float(-np.log2(chance).sum())

    def _padded(self, documents: list[Tokens]) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the concatenated, padded documents, and which tokens belong to documents."""
        pad = [self._end] * (self._order - 1)
        tokens = np.fromiter((t for document in documents for t in (*pad, *document)), np.int64)
        real = np.fromiter(
            (r for document in documents for r in (*(False for _ in pad), *(True for _ in document))), bool
        )
        return tokens, real

    def _fit(self, k: int, counts: Ints) -> _Order:
        keys = self._keys[k - 1]
        contexts = keys // self._vocabulary if k > 1 else np.zeros_like(keys)
        number = len(self._keys[k - 2]) if k > 1 else 1
        ones, twos, threes, fours = (int((counts == n).sum()) or 1 for n in (1, 2, 3, 4))
        y = ones / (ones + 2 * twos)
        discounts = np.array([0.0, 1 - 2 * y * twos / ones, 2 - 3 * y * threes / twos, 3 - 4 * y * fours / threes])
        # the minimum of 0.1 leaves some probability to unseen tokens
        discounts = np.clip(discounts, [0.0, 0.1, 0.1, 0.1], [0.0, 1.0, 2.0, 3.0])
        taken = np.minimum(discounts[np.minimum(counts, 3)], counts)
        totals = np.bincount(contexts, counts, number).astype(np.int64)
        left = np.bincount(contexts, taken, number).astype(np.float64)
        return _Order(keys, counts, totals, left if k > 1 else left / totals, discounts)

    def _number(self, order: _Order, contexts: Ints, tokens: Ints) -> Ints:
        keys = contexts * self._vocabulary + tokens
        at = np.minimum(np.searchsorted(order.keys, keys), len(order.keys) - 1)
        return np.where((contexts >= 0) & (order.keys[at] == keys), at, -1)

    def _count(self, order: _Order, contexts: Ints, tokens: Ints) -> Ints:
        numbers = self._number(order, contexts, tokens)
        return np.where(numbers >= 0, order.counts[numbers], 0)
