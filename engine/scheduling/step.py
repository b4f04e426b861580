"""Step while it is being scheduled: its batch, in packed order, and the rest of the token budget."""

from __future__ import annotations

from typing import NamedTuple

from engine.scheduling.sequence import Sequence
from engine.trace.records import Phase


class ScheduledSequence(NamedTuple):
    """Positions [start, start + num_tokens) of a sequence, to be computed in this step."""

    sequence: Sequence
    start: int
    num_tokens: int


def phase_of(sequence: Sequence, start: int, num_tokens: int) -> Phase:
    """Return the phase of computing positions [start, start + num_tokens) of a sequence.

    Decode computes the token that was sampled last, and drafts after it. Everything else is prefill.
    """
    if start < sequence.num_prompt_tokens:
        return "prefill"
    return "decode" if num_tokens == 1 or start + 1 == len(sequence.token_ids) else "prefill"


class Step:
    """Step being scheduled."""

    def __init__(self, budget: int) -> None:
        self.budget = budget  # tokens left; negative if a single sequence exceeds the budget
        self.batch: dict[int, ScheduledSequence] = {}  # by seq_id, in packed order
        self.preempted = False
        self.admitted = False
        self.yielded: Sequence | None = None  # the last one that preempted itself

    def add(self, sequence: Sequence, num_tokens: int) -> None:
        self.batch[sequence.seq_id] = ScheduledSequence(sequence, sequence.num_computed_tokens, num_tokens)
        self.budget -= num_tokens

    def take_back(self, sequence: Sequence) -> None:
        """Remove a sequence from the batch, if it is in it, and return its tokens to the budget."""
        item = self.batch.pop(sequence.seq_id, None)
        if item is not None:
            self.budget += item.num_tokens
