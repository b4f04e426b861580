"""Detection of steps without progress; the error lists the blocks that each sequence holds."""

from __future__ import annotations

from collections.abc import Iterable

from engine.scheduling.cache_protocol import Cache
from engine.scheduling.sequence import Sequence

GRACE_STEPS = 64  # steps without progress that are always allowed
GRACE_ROUNDS = 4  # further steps are allowed that suffice to compute all tokens this many times


class NoProgressError(RuntimeError):
    """No sequence has made progress in many steps."""


class Progress:
    """Counter of steps since a sequence last reached a new maximum of computed tokens.

    Recomputation after a preemption is not progress.
    """

    def __init__(self, cache: Cache, tokens_a_step: int) -> None:
        """`tokens_a_step`: the token budget."""
        self._cache, self._tokens_a_step = cache, tokens_a_step
        self.num_idle = 0  # steps without progress; the caller resets it when a sequence reaches a new maximum
        self._last_events: tuple[int, ...] = ()

    def step(self, events: tuple[int, ...], live: Iterable[Sequence]) -> None:
        """Count a step. `events`: counters of other kinds of progress; `live`: the unfinished sequences.

        Raises:
            NoProgressError: there were more steps without progress than any order of preemptions needs.
        """
        self.num_idle += 1
        if events != self._last_events:
            self._last_events, self.num_idle = events, 0
        if self.num_idle < GRACE_STEPS:
            return
        unfinished = list(live)
        num_tokens = sum(sequence.num_tokens for sequence in unfinished)
        if self.num_idle >= GRACE_STEPS + GRACE_ROUNDS * (num_tokens // self._tokens_a_step):
            idle, self.num_idle = self.num_idle, 0
            holders = "; ".join(map(self._holds, unfinished))
            raise NoProgressError(f"no sequence made progress in {idle} steps; {holders}")

    def _holds(self, sequence: Sequence) -> str:
        count = self._cache.num_held(sequence.seq_id)
        return f"sequence {sequence.seq_id} ({sequence.status}) holds {count} block{'' if count == 1 else 's'}"
