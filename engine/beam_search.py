"""Beam search over sequences that run in step: which continue, which end, which are dropped. Knows no cache.

At each step every beam offers its most probable next tokens. Of all (beam, token) pairs the best `width` that do not
end go on. A pair that ends counts only if it is among the best `width` of all; it becomes a finished sequence with

    score = cumulative log probability / output tokens ** length_penalty

The search is over when `width` have finished and the best running beam, scored as if it ended now, is no better than
the worst of them; or at max_tokens, where every pair ends. This is what transformers' generate does with
early_stopping=False.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Offer(NamedTuple):
    """A token that a beam could go on with."""

    token_id: int
    logprob: float  # what the search adds up
    raw_logprob: float  # under the raw distribution, as outputs report it


class Choice(NamedTuple):
    """A beam goes on with a token."""

    seq_id: int
    offer: Offer
    cumulative: float  # with the token
    score: float | None  # of a sequence that ends with it; None: it goes on


class BeamSearch:
    """The search of one request. `ends`: tokens that end a sequence."""

    def __init__(self, width: int, length_penalty: float, max_tokens: int, ends: frozenset[int]) -> None:
        self.width = width
        # so many that `width` go on even if every beam's best tokens all end it
        self.num_offers = max(2, 1 + len(ends)) * width
        self.done = False
        self._length_penalty = length_penalty
        self._max_tokens = max_tokens
        self._ends = ends
        self._offers: dict[int, Sequence[Offer]] = {}
        self._cumulative: dict[int, float] = {}  # of the beams that go on; of the first one 0
        self._num_tokens = 0
        self._best_finished: list[float] = []  # scores, best first, at most `width`

    def offer(self, seq_id: int, offers: Sequence[Offer]) -> None:
        """A beam's most probable tokens, best first."""
        self._offers[seq_id] = offers

    def has_offers_of(self, seq_ids: Iterable[int]) -> bool:
        """Whether all of them have made their offer."""
        return all(seq_id in self._offers for seq_id in seq_ids)

    def choose(self) -> list[Choice]:
        """What becomes of the beams that made offers, best first; a beam that is not in it is dropped.

        Afterwards either the search is `done` or those that go on are asked again. A choice's seq_id is the beam it
        comes from; call `went_to` for each one that goes on.
        """
        self._num_tokens += 1
        pairs = [
            (self._cumulative.get(seq_id, 0.0) + offer.logprob, seq_id, offer)
            for seq_id, offers in self._offers.items()
            for offer in offers
        ]
        pairs.sort(key=lambda pair: -pair[0])
        last = self._num_tokens >= self._max_tokens
        ending, going_on = list[Choice](), list[Choice]()
        for place, (cumulative, seq_id, offer) in enumerate(pairs[: self.num_offers]):
            if last or offer.token_id in self._ends:
                if place < self.width and self._counts(self._score(cumulative)):
                    ending.append(Choice(seq_id, offer, cumulative, self._score(cumulative)))
            elif len(going_on) < self.width:
                going_on.append(Choice(seq_id, offer, cumulative, None))
        self._offers.clear()
        self._cumulative.clear()
        best_running = self._score(going_on[0].cumulative) if going_on else None
        full = len(self._best_finished) == self.width
        self.done = best_running is None or (full and best_running <= self._best_finished[-1])
        return ending if self.done else ending + going_on

    def went_to(self, seq_id: int, cumulative: float) -> None:
        """A choice that goes on is this sequence now."""
        self._cumulative[seq_id] = cumulative

    def _score(self, cumulative: float) -> float:
        return float(cumulative / self._num_tokens**self._length_penalty)

    def _counts(self, score: float) -> bool:
        """Put a finished score among the best `width`; whether it is one of them."""
        self._best_finished = sorted([*self._best_finished, score], reverse=True)[: self.width]
        return score in self._best_finished
