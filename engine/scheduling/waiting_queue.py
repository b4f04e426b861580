"""Queue of waiting sequences, in order of admission."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal

from engine.scheduling.sequence import Sequence

Policy = Literal["fcfs", "priority"]


class WaitingQueue:
    """Sequences in order of arrival (`fcfs`) or of `Sequence.rank` (`priority`).

    Under `fcfs` preempted sequences precede new ones, because they arrived earlier.
    """

    def __init__(self, policy: Policy) -> None:
        self._key = _rank if policy == "priority" else _arrival
        self._sequences: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences)

    @property
    def head(self) -> Sequence:
        """Sequence to admit next. Raises IndexError if the queue is empty."""
        return self._sequences[0]

    def after(self, sequence: Sequence) -> list[Sequence]:
        """Return the sequences that are admitted after `sequence`, which need not be in the queue."""
        return self._sequences[bisect_right(self._sequences, self._key(sequence), key=self._key) :]

    def push(self, sequence: Sequence) -> int:
        """Insert a new or preempted sequence; return its position."""
        position = bisect_right(self._sequences, self._key(sequence), key=self._key)
        self._sequences.insert(position, sequence)
        return position

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence. Raises ValueError if it is not in the queue."""
        self._sequences.remove(sequence)


def _rank(sequence: Sequence) -> tuple[int, ...]:
    return sequence.rank


def _arrival(sequence: Sequence) -> tuple[int, ...]:
    return (sequence.arrival, sequence.seq_id)
