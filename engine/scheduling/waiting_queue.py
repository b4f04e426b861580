"""The sequences that wait, in the order in which they will be admitted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal

from engine.scheduling.sequence import Sequence

Policy = Literal["fcfs", "priority"]


class WaitingQueue:
    """In order of arrival (`fcfs`) or of `Sequence.rank`. Preempted sequences arrived before all that never ran."""

    def __init__(self, policy: Policy) -> None:
        self._key = _rank if policy == "priority" else _arrival
        self._sequences: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences)

    @property
    def head(self) -> Sequence:
        """The next to be admitted. Raises IndexError when the queue is empty."""
        return self._sequences[0]

    def behind(self, sequence: Sequence) -> list[Sequence]:
        """Return the sequences that are admitted after this one, which need not wait itself."""
        return self._sequences[bisect_right(self._sequences, self._key(sequence), key=self._key) :]

    def push(self, sequence: Sequence) -> int:
        """Add a sequence, new or preempted; returns its position."""
        position = bisect_right(self._sequences, self._key(sequence), key=self._key)
        self._sequences.insert(position, sequence)
        return position

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out. Raises ValueError when it does not wait."""
        self._sequences.remove(sequence)


def _rank(sequence: Sequence) -> tuple[int, ...]:
    return sequence.rank


def _arrival(sequence: Sequence) -> tuple[int, ...]:
    return (sequence.arrival, sequence.seq_id)
