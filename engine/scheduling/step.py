"""Step while it is being scheduled: its batch, in packed order, and the remaining token budget."""

from __future__ import annotations

from typing import NamedTuple

from engine.scheduling.sequence import Sequence
from engine.trace.records import Phase


class ScheduledSequence(NamedTuple):
    """Positions [start, start + num_tokens) of a sequence, computed in this step."""

    sequence: Sequence
    start: int
    num_tokens: int


def phase_of(sequence: Sequence, start: int, num_tokens: int) -> Phase:
    """Return the phase of computing positions [start, start + num_tokens) of a sequence.

    It is decode for the last sampled token and drafts after it, and prefill otherwise.
    """
    if start < sequence.num_prompt_tokens:
        return "prefill"
    return "decode" if num_tokens == 1 or start + 1 == len(sequence.token_ids) else "prefill"


class Step:
    """Step being scheduled."""

    def __init__(self, budget: int) -> None:
        self.budget = budget  # remaining tokens; negative if a single sequence exceeds the budget
        self.batch: dict[int, ScheduledSequence] = {}  # by seq_id, in packed order
        self.preempted = False
        self.admitted = False
        self.self_preempted: Sequence | None = None  # the last sequence that preempted itself

    def add(self, sequence: Sequence, num_tokens: int) -> None:
        self.batch[sequence.seq_id] = ScheduledSequence(sequence, sequence.num_computed_tokens, num_tokens)
        self.budget -= num_tokens

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence from the batch, if it is in the batch, and return its tokens to the budget."""
        item = self.batch.pop(sequence.seq_id, None)
        if item is not None:
            self.budget += item.num_tokens
