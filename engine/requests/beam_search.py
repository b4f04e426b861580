"""Beam search over sequences that advance together: which continue, which end, which are dropped. Knows no cache.

At each step every beam offers its most probable next tokens. Of all (beam, token) pairs the best `width` that do not
end continue. A pair that ends counts only if it is among the best `width` of all. Then it is a finished sequence with

    score = cumulative log probability / output tokens ** length_penalty

The search ends when `width` sequences have finished and the best running beam, scored as if it ended now, is not better
than the worst of them. It also ends at max_tokens, where every pair ends. transformers' `generate` does the same with
early_stopping=False.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Offer(NamedTuple):
    """Candidate for the next token of a beam."""

    token_id: int
    logprob: float  # summed by the search
    raw_logprob: float  # under the raw distribution, for outputs


@dataclass(slots=True)
class Beam:
    """Running sequence of a beam search."""

    cumulative: float = 0.0  # sum of the log probabilities of its output tokens
    offers: Sequence[Offer] = ()  # its most probable next tokens, best first; empty until they are computed


class BeamStep(NamedTuple):
    """Continuation of a beam by a token."""

    place: int  # index of the beam among those with offers
    offer: Offer
    cumulative: float  # including the token
    score: float | None  # of a sequence that ends with it; None: it continues


class BeamSearch:
    """Beam search of a request. `ends`: tokens that end a sequence."""

    def __init__(self, width: int, length_penalty: float, max_tokens: int, ends: frozenset[int]) -> None:
        self.width = width
        # enough for `width` beams to continue even if all end tokens are among the best
        self.num_offers = max(2, 1 + len(ends)) * width
        self.done = False
        self._length_penalty = length_penalty
        self._max_tokens = max_tokens
        self._ends = ends
        self._num_tokens = 0
        self._best_finished: list[float] = []  # scores, best first, at most `width`

    def choose(self, beams: Sequence[Beam]) -> list[BeamStep]:
        """Return the chosen continuations of the beams, best first. All beams have offers; others are dropped.

        Afterwards either the search is `done`, or each continuing choice is a beam that needs new offers.
        """
        self._num_tokens += 1
        pairs = [
            (beam.cumulative + offer.logprob, place, offer) for place, beam in enumerate(beams) for offer in beam.offers
        ]
        pairs.sort(key=lambda pair: -pair[0])
        last = self._num_tokens >= self._max_tokens
        ending, going_on = list[BeamStep](), list[BeamStep]()
        for rank, (cumulative, place, offer) in enumerate(pairs[: self.num_offers]):
            if last or offer.token_id in self._ends:
                if rank < self.width and self._counts(self._score(cumulative)):
                    ending.append(BeamStep(place, offer, cumulative, self._score(cumulative)))
            elif len(going_on) < self.width:
                going_on.append(BeamStep(place, offer, cumulative, None))
        best_running = self._score(going_on[0].cumulative) if going_on else None
        full = len(self._best_finished) == self.width
        self.done = best_running is None or (full and best_running <= self._best_finished[-1])
        return ending if self.done else ending + going_on

    def _score(self, cumulative: float) -> float:
        return float(cumulative / self._num_tokens**self._length_penalty)

    def _counts(self, score: float) -> bool:
        """Add a finished score to the best `width`. Returns whether it is one of them."""
        self._best_finished = sorted([*self._best_finished, score], reverse=True)[: self.width]
        return score in self._best_finished
