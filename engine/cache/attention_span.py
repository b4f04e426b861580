"""Attention spans: the keys that a query can see, and the blocks that no later query needs.

    position   0 ... sinks           p - window + 1 ... p
               [ seen ]  [ hidden ]  [      seen        ]   query at p

A model may have a window in its layers, and a policy may add one to any model. Layers with equal spans share their
block tables (`block_groups`), and a block is released when no layer of its group can see it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engine.trace.operations import ReleaseReason


class AttentionSpan(NamedTuple):
    """Keys that the query at position p sees: [0, sinks) and the last `window` keys up to p; None: all keys up to p."""

    window: int | None
    sinks: int = 0

    def first_key(self, query: int) -> int:
        """Return the smallest position that this query, or any later one, may see."""
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
        """Return the span of a layer: the policy's, or that of the layer's own window if it is no wider."""
        is_exempt = self.pattern is not None and (layer + 1) % self.pattern == 0
        if is_exempt or (sliding_window is not None and sliding_window <= self.window):
            return AttentionSpan(sliding_window)
        return AttentionSpan(self.window, self.sinks)


def reaches_of(sliding_windows: Iterable[int | None], policy: WindowPolicy | None = None) -> list[AttentionSpan]:
    """Return the span of each layer, given the layers' own windows."""
    if policy is None:
        return [AttentionSpan(window) for window in sliding_windows]
    return [policy.reach(layer, window) for layer, window in enumerate(sliding_windows)]


class RetentionPolicy(NamedTuple):
    """Blocks of a sequence that a layer may still see: those of the first `sinks` tokens and of the last `window`.

    For states (`checkpoint` > 0), only the newest is needed. A step stores its state in few of its blocks: those that
    end at a multiple of `checkpoint` tokens, the last one, and the last full one. The other table entries get no block.
    """

    window: int
    sinks: int
    reason: ReleaseReason
    checkpoint: int = 0  # tokens, a multiple of block_size

    def stores_in(self, logical: int, num_tokens: int, block_size: int) -> bool:
        """Return whether a step that ends at `num_tokens` tokens stores keys and values, or a state, in a block."""
        if not self.checkpoint or (logical + 1) * block_size % self.checkpoint == 0:
            return True
        return logical >= num_tokens // block_size - 1

    def num_stored(self, first: int, num_tokens: int, block_size: int) -> int:
        """Return the number of logical blocks from `first` on for which `stores_in` is true."""
        end = -(-num_tokens // block_size)
        if not self.checkpoint:
            return max(end - first, 0)
        each, tail = self.checkpoint // block_size, max(first, end - 2)
        regular = max(tail // each - first // each, 0)
        return regular + sum(self.stores_in(logical, num_tokens, block_size) for logical in range(tail, end))

    def first(self, block_size: int) -> int:
        """Return the first logical block that may ever be released: the first without a sink."""
        return -(-self.sinks // block_size)

    def end(self, num_computed: int, block_size: int) -> int:
        """Return the end of the releasable blocks: no later query sees the logical blocks [first, end).

        The next query is at position num_computed and sees positions from num_computed - window + 1 on. The block of
        the last computed position is never releasable, not even with a window of one token, so that the last entry of
        a table is a block.
        """
        return max(0, num_computed - max(self.window, 2) + 1) // block_size

    def max_blocks(self, tokens_a_step: int, block_size: int) -> int:
        """Return the maximum number of blocks of a sequence if a step computes up to `tokens_a_step` of its tokens.

        They hold the sinks, and window - 1 + tokens_a_step positions that may begin anywhere in a block.
        """
        if self.checkpoint:  # the state before the step, and the states that the step stores
            return 4 + tokens_a_step // self.checkpoint
        return self.first(block_size) + 1 - (-(tokens_a_step + max(self.window, 2) - 2) // block_size)


def state_retention(checkpoint: int) -> RetentionPolicy:
    """Return the retention of states: a query needs only the latest one. `checkpoint`: see `RetentionPolicy`."""
    return RetentionPolicy(2, 0, "state", checkpoint)


def retention_of(reaches: Sequence[AttentionSpan], policy: WindowPolicy | None = None) -> RetentionPolicy | None:
    """Return the retention that layers with these spans need; None if some layer sees all keys."""
    windows = [reach.window for reach in reaches if reach.window is not None]
    if not reaches or len(windows) < len(reaches):
        return None
    by_policy = policy is not None and AttentionSpan(policy.window, policy.sinks) in reaches
    return RetentionPolicy(max(windows), max(reach.sinks for reach in reaches), "policy" if by_policy else "window")
