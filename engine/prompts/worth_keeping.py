"""Finds the prefixes whose caching saves most tokens in later requests.

A prefix consists of complete segments. A request counts only for its longest found prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from engine.prompts.policies import Policy
from engine.prompts.prefix_tree import Node, PrefixTree
from engine.prompts.readers import Keyspace
from engine.prompts.report import Span, Verdict

MAX_PREFIXES = 5


class Prefix(Struct, frozen=True):
    """Prefix of prompts, rounded down to units of the cache.

    `num_later`: number of later requests whose longest found prefix this is. `num_saved`: tokens that these requests
    save in addition to shorter found prefixes.
    """

    num_saved: int
    num_tokens: int
    num_later: int
    model: str
    request: int  # last request that begins with it
    paths: list[str]  # paths of its segments in the request


def worth_keeping(trees: Mapping[Keyspace, PrefixTree], verdicts: Sequence[Verdict], policy: Policy) -> list[Prefix]:
    """Return the prefixes that save most tokens, best first."""
    nodes, found = _nodes(trees, policy), list[Prefix]()
    while len(found) < MAX_PREFIXES:
        best = max(nodes, key=_saved_by, default=None)
        if best is None or _saved_by(best) <= 0:
            break
        last = best.node.last
        paths = _paths(verdicts[last].spans, best.num_tokens)
        num_later = best.num_later - best.num_served
        found.append(Prefix(_saved_by(best), best.num_tokens, num_later, best.model, last, paths))
        best.is_found = True
        for one in nodes:  # parents first
            if one.above is not None:
                one.num_before = one.above.num_tokens if one.above.is_found else one.above.num_before
            one.num_served = 0
        for one in reversed(nodes):
            if one.above is not None:
                one.above.num_served += one.num_later if one.is_found else one.num_served
    return found


class _Candidate:
    """Prefix that ends with a node.

    `num_before`: tokens of its longest found prefix. `num_served`: number of later requests with a longer found prefix.
    """

    __slots__ = ("above", "is_found", "model", "node", "num_before", "num_later", "num_served", "num_tokens")

    def __init__(self, node: Node, above: _Candidate | None, model: str, policy: Policy) -> None:
        self.node, self.above, self.model = node, above, model
        self.num_later = node.uses - 1
        rounded = node.end - node.end % policy.unit
        self.num_tokens = rounded if rounded >= policy.minimum_of(model) else 0
        self.num_before = self.num_served = 0
        self.is_found = False


def _saved_by(one: _Candidate) -> int:
    return 0 if one.is_found else (one.num_later - one.num_served) * (one.num_tokens - one.num_before)


def _nodes(trees: Mapping[Keyspace, PrefixTree], policy: Policy) -> list[_Candidate]:
    """Return the prefixes that several requests share, parents before children."""
    found = list[_Candidate]()
    waiting: list[tuple[Node, _Candidate | None, str]] = [
        (tree.root, None, space.model) for space, tree in trees.items()
    ]
    for node, above, model in waiting:
        for child in node.children.values():
            if child.uses > 1:
                one = _Candidate(child, above, model, policy)
                found.append(one)
                waiting.append((child, one, model))
    return found


def _paths(spans: Sequence[Span], num_tokens: int) -> list[str]:
    """Return the paths of the segments that contain the first `num_tokens` tokens of a prompt."""
    found, start = dict[str, None](), 0
    for span in spans:
        if start >= num_tokens:
            break
        found[span.path] = None
        start += span.num_tokens
    return list(found)
