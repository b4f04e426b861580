"""The sequences that wait, in the order in which they will be admitted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal

from engine.scheduling.sequence import Sequence

Policy = Literal["fcfs", "priority"]


class WaitingQueue:
    """`fcfs`: new ones to the tail, preempted ones to the front. `priority`: both in the order of `Sequence.rank`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._sequences: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences)

    @property
    def head(self) -> Sequence:
        """The next to be admitted. Raises IndexError when nobody waits."""
        return self._sequences[0]

    def push(self, sequence: Sequence) -> int:
        """Add a new sequence; returns its position."""
        return self._insert(sequence, len(self._sequences))

    def push_preempted(self, sequence: Sequence) -> int:
        """Add a sequence that was running; returns its position."""
        return self._insert(sequence, 0)

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out. Raises ValueError when it does not wait."""
        self._sequences.remove(sequence)

    def _insert(self, sequence: Sequence, position: int) -> int:
        if self._policy == "priority":
            position = bisect_right(self._sequences, sequence.rank, key=lambda s: s.rank)
        self._sequences.insert(position, sequence)
        return position
