"""Which keys a query can see, and so which blocks no query will ask for again.

    position   0 ... sinks           p - window + 1 ... p
               [ seen ]  [ hidden ]  [      seen        ]   query at p

A model may have a window in its layers; a policy may put one over any model. One block table serves all layers of a
sequence, so a block goes when no layer can see it any more. A hybrid model has layers without a window: there every
block stays in sight and nothing is ever released (that would take block tables per kind of layer).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from engine.trace.events import ReleaseReason


class Reach(NamedTuple):
    """The query at position p sees the keys at [0, sinks) and the `window` last ones up to p; None: all up to p."""

    window: int | None
    sinks: int = 0

    def first_key(self, query: int) -> int:
        """The smallest position that the query, and so any later one, may see."""
        return 0 if self.window is None or self.sinks else max(0, query - self.window + 1)

    def hides_between(self, query: int) -> bool:
        """Whether there are hidden keys between the sinks and the window."""
        return self.window is not None and self.sinks > 0 and query - self.window + 1 > self.sinks

    @property
    def num_keys(self) -> int | None:
        """Keys that a query sees at most."""
        return None if self.window is None else self.window + self.sinks


def reach_of(sliding_window: int | None, policy: Reach | None) -> Reach:
    """What a layer's queries see: the policy's keys, or the layer's own window where that is no wider than the policy.

    `policy` has a window; None: there is none.
    """
    if policy is None or policy.window is None:
        return Reach(sliding_window)
    if sliding_window is not None and sliding_window <= policy.window:
        return Reach(sliding_window)
    return policy


class Retention(NamedTuple):
    """Which blocks of a sequence a layer may still see: those of the first `sinks` tokens and of the last `window`."""

    window: int
    sinks: int
    reason: ReleaseReason

    def first(self, block_size: int) -> int:
        """The first logical block that may ever be released: the first without a sink."""
        return -(-self.sinks // block_size)

    def end(self, num_computed: int, block_size: int) -> int:
        """Where releasing ends: logical blocks from `first` up to here are out of every later query's sight.

        The next query is at position num_computed and sees positions from num_computed - window + 1 on. The block of
        the last computed position stays (under a window of one token it could go), so that a table ends in a block.
        """
        return max(0, num_computed - max(self.window, 2) + 1) // block_size


def retention_of(sliding_windows: Iterable[int | None], policy: Reach | None = None) -> Retention | None:
    """What a model's cache must keep, given the window of each layer. None: everything, as some layer sees all keys."""
    reaches = [reach_of(window, policy) for window in sliding_windows]
    windows = [reach.window for reach in reaches if reach.window is not None]
    if not reaches or len(windows) < len(reaches):
        return None
    by_policy = policy is not None and policy in reaches
    return Retention(max(windows), max(reach.sinks for reach in reaches), "policy" if by_policy else "window")
