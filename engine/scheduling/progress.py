"""Detect a standstill: steps that bring no sequence further end in an error that names the blocks each one holds."""

from __future__ import annotations

from collections.abc import Iterable

from engine.scheduling.cache_protocol import Cache
from engine.scheduling.sequence import Sequence

GRACE = 64  # steps
ROUNDS = 4  # more steps: those in which the tokens of all sequences are computed so many times


class NoProgressError(RuntimeError):
    """Steps are taken, and no sequence comes further than it ever was."""


class Progress:
    """Counts steps since a sequence came further than ever: preempting it and computing it again is no progress."""

    def __init__(self, cache: Cache, tokens_a_step: int) -> None:
        """`tokens_a_step`: the token budget."""
        self._cache, self._tokens_a_step = cache, tokens_a_step
        self.num_idle = 0  # steps; the caller sets it to 0 when a sequence has more computed tokens than ever
        self._seen: tuple[int, ...] = ()

    def step(self, events: tuple[int, ...], live: Iterable[Sequence]) -> None:
        """A step begins. `events`: counts that change with whatever else is progress; `live`: the unfinished sequences.

        Raises:
            NoProgressError: after more steps without progress than any order of preemptions takes.
        """
        self.num_idle += 1
        if events != self._seen:
            self._seen, self.num_idle = events, 0
        if self.num_idle < GRACE:
            return
        unfinished = list(live)
        num_tokens = sum(sequence.num_tokens for sequence in unfinished)
        if self.num_idle >= GRACE + ROUNDS * (num_tokens // self._tokens_a_step):
            idle, self.num_idle = self.num_idle, 0
            holders = "; ".join(map(self._holds, unfinished))
            raise NoProgressError(f"no sequence came further in {idle} steps; {holders}")

    def _holds(self, sequence: Sequence) -> str:
        count = self._cache.num_held(sequence.seq_id)
        return f"sequence {sequence.seq_id} ({sequence.status}) holds {count} block{'' if count == 1 else 's'}"
