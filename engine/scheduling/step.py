"""A step while it is being put together: its batch, in packed order, and what is left of the token budget."""

from __future__ import annotations

from typing import NamedTuple

from engine.scheduling.sequence import Sequence
from engine.trace.records import Phase


class ScheduledSequence(NamedTuple):
    """Positions [start, start + num_tokens) of a sequence are to be computed in this step."""

    sequence: Sequence
    start: int
    num_tokens: int


def phase_of(sequence: Sequence, start: int, num_tokens: int) -> Phase:
    """Return the phase of computing positions [start, start + num_tokens) of a sequence.

    A decode step computes the one token that was sampled last, and drafts after it; everything else computes known
    tokens.
    """
    if start < sequence.num_prompt_tokens:
        return "prefill"
    return "decode" if num_tokens == 1 or start + 1 == len(sequence.token_ids) else "prefill"


class Step:
    """The step being put together."""

    def __init__(self, budget: int) -> None:
        self.budget = budget  # tokens that may still be scheduled; below 0 where one sequence alone exceeds it
        self.batch: dict[int, ScheduledSequence] = {}  # by seq_id, in packed order
        self.preempted = False
        self.admitted = False
        self.yielded: Sequence | None = None  # the last one that preempted itself

    def add(self, sequence: Sequence, num_tokens: int) -> None:
        self.batch[sequence.seq_id] = ScheduledSequence(sequence, sequence.num_computed_tokens, num_tokens)
        self.budget -= num_tokens

    def take_back(self, sequence: Sequence) -> None:
        """The sequence leaves the batch, if it is in it, and its tokens go back to the budget."""
        item = self.batch.pop(sequence.seq_id, None)
        if item is not None:
            self.budget += item.num_tokens
