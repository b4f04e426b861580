"""Tree of earlier prompts by segment, to find the longest shared prefix of a new prompt.

A path from the root is a prompt. Segments with equal content have equal tokens, so prompts are compared by segment, and
by token only at the divergence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from engine.cache.prefix_memory import common_prefix
from engine.prompts.segments import Content, Segment


class Node:
    """Segment of prompts that share all segments above it. `end`: number of tokens up to its end."""

    __slots__ = ("children", "end", "ends", "last", "tokens", "touched", "ttl", "until", "uses")

    def __init__(self, tokens: Sequence[int], start: int) -> None:
        self.tokens, self.end = tokens, start + len(tokens)
        self.children: dict[Content, Node] = {}
        self.last = -1  # last request whose prompt contains this node
        self.uses = 0  # number of requests whose prompts contain it
        self.ends = -1  # last request whose prompt ends here; -1: none
        self.touched = 0.0  # time of the last request
        self.until = -1.0  # expiry of the entry at a breakpoint here; -1: no entry
        self.ttl = 0.0  # its time to live in seconds


class Match(NamedTuple):
    """Longest prefix that a prompt shares with an earlier one.

    `path`: completely shared nodes from the root. `parted`: next node of the earlier prompt, which differs at least in
    part; None if one of the prompts ends with `path`. `num_tokens`: number of shared tokens.
    """

    path: list[Node]
    parted: Node | None
    num_tokens: int

    @property
    def closest(self) -> int:
        """Index of the earlier request, or -1."""
        end = self.path[-1]
        return self.parted.last if self.parted else end.ends if end.ends >= 0 else end.last

    @property
    def continues_prompt(self) -> bool:
        """Whether an earlier prompt ended with `path`, so that this one continues it."""
        return self.path[-1].ends >= 0


def _best_child(node: Node, rest: Sequence[int]) -> tuple[Node | None, int]:
    """Return the child below which most leading tokens of `rest` match, and their number. Ties go to the last used.

    The tokens below a child may be divided into other segments than those of the prompt.
    """
    best, longest = None, -1
    for child in node.children.values():
        shared = _num_shared(child, rest)
        if (shared, child.last) > (longest, best.last if best else -1):
            best, longest = child, shared
    return best, max(longest, 0)


def _num_shared(node: Node, rest: Sequence[int]) -> int:
    """Return the number of leading tokens of `rest` on the best path below `node`."""
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
    """Prompts of one model and cache."""

    def __init__(self) -> None:
        self.root = Node((), 0)

    def match(self, segments: Sequence[Segment], tokens: Sequence[Sequence[int]]) -> Match:
        """Find the longest prefix shared with an earlier prompt. `tokens`: token ids of each segment."""
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
        """Insert the prompt of `request`, or mark its nodes as used. Returns the nodes without the root."""
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
