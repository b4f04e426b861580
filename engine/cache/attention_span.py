"""Reach of queries: the keys that a query can see, and the blocks that no later query needs.

    position   0 ... sinks           p - window + 1 ... p
               [ seen ]  [ hidden ]  [      seen        ]   query at p

A model may have a window in its layers, and a policy may add one to any model. Layers with equal reach share their
block tables (`block_groups`), and a block is released when no layer of its group can see it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engine.trace.operations import ReleaseReason


class AttentionSpan(NamedTuple):
    """The query at position p sees the keys at [0, sinks) and the last `window` keys up to p; None: all up to p."""

    window: int | None
    sinks: int = 0

    def first_key(self, query: int) -> int:
        """Return the smallest position that the query, and so any later one, may see."""
        return 0 if self.window is None or self.sinks else max(0, query - self.window + 1)

    def hides_between(self, query: int) -> bool:
        """Return whether there are hidden keys between the sinks and the window."""
        return self.window is not None and self.sinks > 0 and query - self.window + 1 > self.sinks

    @property
    def num_keys(self) -> int | None:
        """Maximum number of keys that a query sees."""
        return None if self.window is None else self.window + self.sinks


class WindowPolicy(NamedTuple):
    """Window added to a model that may have none (StreamingLLM, https://arxiv.org/abs/2309.17453)."""

    window: int
    sinks: int = 0
    pattern: int | None = None  # every pattern-th layer is exempt, as in Gemma 3; None: no layer

    def reach(self, layer: int, sliding_window: int | None) -> AttentionSpan:
        """Return the reach of a layer's queries: the policy's keys, or the layer's own window if it is no wider."""
        left_alone = self.pattern is not None and (layer + 1) % self.pattern == 0
        if left_alone or (sliding_window is not None and sliding_window <= self.window):
            return AttentionSpan(sliding_window)
        return AttentionSpan(self.window, self.sinks)


def reaches_of(sliding_windows: Iterable[int | None], policy: WindowPolicy | None = None) -> list[AttentionSpan]:
    """Return the reach of each layer's queries, given the layers' own windows."""
    if policy is None:
        return [AttentionSpan(window) for window in sliding_windows]
    return [policy.reach(layer, window) for layer, window in enumerate(sliding_windows)]


class RetentionPolicy(NamedTuple):
    """Blocks of a sequence that a layer may still see: those of the first `sinks` tokens and of the last `window`.

    For states (`checkpoint` > 0) only the newest one counts. A step stores its state in few of its blocks: those
    that end at a multiple of `checkpoint` tokens, the last one, and the last full one. The others get no block.
    """

    window: int
    sinks: int
    reason: ReleaseReason
    checkpoint: int = 0  # tokens, a multiple of block_size

    def leaves(self, logical: int, num_tokens: int, block_size: int) -> bool:
        """Return whether a step that computes up to `num_tokens` tokens leaves something in logical block `logical`."""
        if not self.checkpoint or (logical + 1) * block_size % self.checkpoint == 0:
            return True
        return logical >= num_tokens // block_size - 1

    def num_left(self, first: int, num_tokens: int, block_size: int) -> int:
        """Return the number of blocks from logical block `first` on in which a step up to `num_tokens` tokens
        leaves something.
        """
        end = -(-num_tokens // block_size)
        if not self.checkpoint:
            return max(end - first, 0)
        each, tail = self.checkpoint // block_size, max(first, end - 2)
        regular = max(tail // each - first // each, 0)
        return regular + sum(self.leaves(logical, num_tokens, block_size) for logical in range(tail, end))

    def first(self, block_size: int) -> int:
        """Return the first logical block that may ever be released: the first without a sink."""
        return -(-self.sinks // block_size)

    def end(self, num_computed: int, block_size: int) -> int:
        """Return the end of the releasable blocks: no later query sees logical blocks from `first` up to here.

        The next query is at position num_computed and sees positions from num_computed - window + 1 on. The block of
        the last computed position stays (under a window of one token it could go), so that a table ends in a block.
        """
        return max(0, num_computed - max(self.window, 2) + 1) // block_size

    def most_blocks(self, tokens_a_step: int, block_size: int) -> int:
        """Return the most blocks that a sequence of any length holds when a step computes `tokens_a_step` of its
        tokens.

        Sinks, and a span of window - 1 + tokens_a_step positions that may begin anywhere in a block.
        """
        if self.checkpoint:  # the state before the step, and those it stores
            return 4 + tokens_a_step // self.checkpoint
        return self.first(block_size) + 1 - (-(tokens_a_step + max(self.window, 2) - 2) // block_size)


def state_retention(checkpoint: int) -> RetentionPolicy:
    """Return the retention of a state: a query needs the one before it. `checkpoint`: see `RetentionPolicy`."""
    return RetentionPolicy(2, 0, "state", checkpoint)


def retention_of(reaches: Sequence[AttentionSpan], policy: WindowPolicy | None = None) -> RetentionPolicy | None:
    """Return the retention that layers with these reaches need; None if some layer sees all keys."""
    windows = [reach.window for reach in reaches if reach.window is not None]
    if not reaches or len(windows) < len(reaches):
        return None
    by_policy = policy is not None and AttentionSpan(policy.window, policy.sinks) in reaches
    return RetentionPolicy(max(windows), max(reach.sinks for reach in reaches), "policy" if by_policy else "window")
