"""Tree of earlier prompts by segment: finds the one that shares the longest beginning with a new prompt.

A path from the root is a prompt. Two segments with the same content have the same tokens, so prompts are compared
segment by segment, and token by token only where they part.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from engine.cache.prefix_memory import common_prefix
from engine.prompts.segments import Content, Segment


class Node:
    """A segment after those above it. `end`: tokens up to its end."""

    __slots__ = ("children", "end", "ends", "kept", "last", "tokens", "touched", "until", "uses")

    def __init__(self, tokens: Sequence[int], start: int) -> None:
        self.tokens, self.end = tokens, start + len(tokens)
        self.children: dict[Content, Node] = {}
        self.last = -1  # the last request whose prompt passes this node
        self.uses = 0  # requests whose prompts pass it
        self.ends = -1  # the last request that ended here; -1: none did
        self.touched = 0.0  # time of that request
        self.until = -1.0  # until when an entry at a breakpoint here is kept, and for how many seconds after a use
        self.kept = 0.0


class Match(NamedTuple):
    """Beginning that a prompt shares with the earlier one that shares most.

    `path`: the nodes that it shares as a whole, the root first. `parted`: the node that it shares in part, or whose
    place another segment takes; None: it ends with `path`, or nothing came after that. `num_tokens`: shared.
    """

    path: list[Node]
    parted: Node | None
    num_tokens: int

    @property
    def closest(self) -> int:
        """The earlier request; -1: there was none."""
        end = self.path[-1]
        return self.parted.last if self.parted else end.ends if end.ends >= 0 else end.last

    @property
    def goes_on(self) -> bool:
        """Whether an earlier prompt ended where `path` does."""
        return self.path[-1].ends >= 0


def _best_child(node: Node, rest: Sequence[int]) -> tuple[Node | None, int]:
    """Return the child below which most of the tokens `rest` are found, and how many; the last used of equal ones.

    The segments below a child may be cut at other places than those of the prompt.
    """
    best, longest = None, -1
    for child in node.children.values():
        shared = _num_shared(child, rest)
        if (shared, child.last) > (longest, best.last if best else -1):
            best, longest = child, shared
    return best, max(longest, 0)


def _num_shared(node: Node, rest: Sequence[int]) -> int:
    """Return how many tokens of `rest` the best path from `node` down begins with."""
    longest, waiting = 0, [(node, 0)]
    while waiting:
        one, start = waiting.pop()
        own = list(one.tokens)
        count = common_prefix(own, rest[start : start + len(own)])
        longest = max(longest, start + count)
        if count == len(own):
            waiting += [(child, start + count) for child in one.children.values()]
    return longest


class PrefixTree:
    """The prompts of one model and cache."""

    def __init__(self) -> None:
        self.root = Node((), 0)

    def match(self, segments: Sequence[Segment], tokens: Sequence[Sequence[int]]) -> Match:
        """Find what a prompt shares with earlier ones; `tokens`: of each segment."""
        path = [self.root]
        for segment in segments:
            child = path[-1].children.get(segment.content)
            if child is None:
                break
            path.append(child)
        node, depth = path[-1], len(path) - 1
        if depth == len(segments):
            return Match(path, None, node.end)
        best, longest = _best_child(node, list(chain.from_iterable(tokens[depth:]))) if node.children else (None, 0)
        return Match(path, best, node.end + longest)

    def insert(
        self, segments: Sequence[Segment], tokens: Sequence[Sequence[int]], request: int, now: float
    ) -> list[Node]:
        """Insert the prompt of `request`, or mark its nodes as used. Returns them without the root."""
        node, path = self.root, list[Node]()
        for segment, own in zip(segments, tokens, strict=True):
            child = node.children.get(segment.content)
            if child is None:
                child = node.children[segment.content] = Node(own, node.end)
            child.last, child.touched = request, now
            child.uses += 1
            path.append(child)
            node = child
        node.ends = request
        return path
