"""Beam search over sequences in lockstep: selects those that continue, end or are dropped. Independent of the cache.

At each step every beam has candidates, its most probable next tokens. Of all (beam, token) pairs, the best `width` that
do not end continue. A pair that ends is accepted only if it is among the best `width` of all pairs. It is a finished
sequence with

    score = cumulative log probability / output tokens ** length_penalty

The search ends when `width` sequences have finished and the best running beam, scored as if it ended now, is not better
than the worst of them. It also ends at max_tokens, where every pair ends. transformers' `generate` does the same with
early_stopping=False.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class BeamCandidate(NamedTuple):
    """Candidate for the next token of a beam."""

    token_id: int
    logprob: float  # log probability that the search sums
    raw_logprob: float  # log probability under the raw distribution, for outputs


@dataclass(slots=True)
class Beam:
    """Running sequence of a beam search."""

    cumulative: float = 0.0  # sum of the log probabilities of its output tokens
    candidates: Sequence[BeamCandidate] = ()  # its most probable next tokens, best first; empty until computed


class BeamStep(NamedTuple):
    """Continuation of a beam by a token."""

    place: int  # index of the beam
    candidate: BeamCandidate
    cumulative: float  # cumulative log probability including the token
    score: float | None  # score if the sequence ends with the token; None: it continues


class BeamSearch:
    """Beam search of a request. `ends`: tokens that end a sequence."""

    def __init__(self, width: int, length_penalty: float, max_tokens: int, ends: frozenset[int]) -> None:
        self.width = width
        # enough for `width` beams to continue even if all end tokens are among the best
        self.num_candidates = max(2, 1 + len(ends)) * width
        self.done = False
        self._length_penalty = length_penalty
        self._max_tokens = max_tokens
        self._ends = ends
        self._num_tokens = 0
        self._best_finished: list[float] = []  # scores, best first, at most `width`

    def choose(self, beams: Sequence[Beam]) -> list[BeamStep]:
        """Return the chosen continuations of the beams, best first; other beams are dropped. All beams have candidates.

        Afterwards either the search is `done`, or each continuing choice is a beam that needs new candidates.
        """
        self._num_tokens += 1
        pairs = [
            (beam.cumulative + candidate.logprob, place, candidate)
            for place, beam in enumerate(beams)
            for candidate in beam.candidates
        ]
        pairs.sort(key=lambda pair: -pair[0])
        is_last = self._num_tokens >= self._max_tokens
        ending, continuing = list[BeamStep](), list[BeamStep]()
        for rank, (cumulative, place, candidate) in enumerate(pairs[: self.num_candidates]):
            if is_last or candidate.token_id in self._ends:
                if rank < self.width and self._add_finished(self._score(cumulative)):
                    ending.append(BeamStep(place, candidate, cumulative, self._score(cumulative)))
            elif len(continuing) < self.width:
                continuing.append(BeamStep(place, candidate, cumulative, None))
        best_running = self._score(continuing[0].cumulative) if continuing else None
        is_full = len(self._best_finished) == self.width
        self.done = best_running is None or (is_full and best_running <= self._best_finished[-1])
        return ending if self.done else ending + continuing

    def _score(self, cumulative: float) -> float:
        return float(cumulative / self._num_tokens**self._length_penalty)

    def _add_finished(self, score: float) -> bool:
        """Add the score of a finished sequence; return whether it is among the best `width`."""
        self._best_finished = sorted([*self._best_finished, score], reverse=True)[: self.width]
        return score in self._best_finished
