"""Policies of prefix caches, and the hits of a prompt under each."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from engine.accounting.sources import Sourced
from engine.cache.prefix_memory import common_prefix_of_parts
from engine.prompts.prefix_tree import Match, Node
from engine.prompts.readers import PromptRequest
from engine.prompts.segments import Segment

DAY = 86_400.0
Tokens = Sequence[Sequence[int]]  # token ids of each segment of a prompt
Prompt = tuple[Sequence[Segment], Tokens]
Scope = Literal["instance", "slot", "organization", "workspace", "user"]
Limit = Literal[
    "expired", "too_short", "no_breakpoint", "breakpoint_out_of_reach", "other_slot", "evicted", "rounded",
    "larger_than_pool", "other_rules",
]  # fmt: skip


class Policy(Sourced, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Policy of a cache. `policies.toml` describes the fields."""

    unit: int
    minimum: int = 0
    minimums: Mapping[str, int] = {}
    seconds: float = 0
    maybe_seconds: float = 0
    breakpoints: bool = False
    lookback: int = 0
    most_breakpoints: int = 0
    slots: int = 0
    last_token: bool = False
    answers: bool = False
    scope: Scope
    not_for: tuple[str, ...] = ()

    def minimum_of(self, model: str) -> int:
        """Return the minimum number of tokens of a cached prefix for a model."""
        name = _plain(model)
        return next((count for word, count in self.minimums.items() if word in name), self.minimum)

    def is_for(self, model: str) -> bool:
        return not any(word in _plain(model) for word in self.not_for)


def _plain(model: str) -> str:
    """Normalize a model name to that of `policies.toml`. Gateways write 4.6 for 4-6."""
    return model.lower().replace(".", "-")


class Hit(Struct, frozen=True):
    """Number of tokens that hit. `limit`: why they are fewer than the tokens shared with an earlier prompt."""

    num_tokens: int
    limit: Limit | None = None
    detail: str = ""
    maybe: bool = False  # whether the entry may have been evicted already


class _File(Struct, forbid_unknown_fields=True):
    policy: tuple[Policy, ...]


@cache
def policies() -> dict[str, Policy]:
    """Return the policies by id, in the file's order."""
    text = (Path(__file__).parent / "policies.toml").read_text(encoding="utf-8")
    found = msgspec.convert(tomllib.loads(text), _File)
    return {policy.id: policy for policy in found.policy}


class PolicyCache:
    """Cache of one model's prompts under a policy. Call `lookup` before the prompt is inserted into the tree."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._slots: list[Prompt] = []  # contents of the slots, latest last

    def lookup(self, request: PromptRequest, tokens: Tokens, match: Match, now: float) -> Hit:
        """Return the hit of a prompt. `tokens`: token ids of each segment."""
        policy = self.policy
        if not policy.is_for(request.model):
            return Hit(0, "other_rules")
        if policy.breakpoints:
            return self._at_breakpoint(request, match, now)
        limit = min(match.num_tokens, sum(map(len, tokens)) - policy.last_token)
        if policy.slots:
            num_held = max((_num_shared(slot, (request.segments, tokens)) for slot in self._slots), default=0)
            return Hit(min(num_held, limit), "other_slot" if num_held < match.num_tokens else None)
        seconds = DAY if policy.seconds and request.retention == "24h" else policy.seconds
        alive = limit
        if seconds:
            alive = min(limit, _num_alive(match, lambda node: now - node.touched <= seconds))
        found = alive - alive % policy.unit
        if alive < limit:
            return Hit(found if found >= policy.minimum else 0, "expired")
        if found < policy.minimum:
            return Hit(0, "too_short" if limit else None, str(policy.minimum))
        maybe = bool(found and policy.maybe_seconds and seconds != DAY)
        maybe &= _num_alive(match, lambda node: now - node.touched <= policy.maybe_seconds) < found
        return Hit(found, "rounded" if found < match.num_tokens else None, "", maybe)

    def insert(self, request: PromptRequest, prompt: Prompt, path: Sequence[Node], now: float) -> None:
        """Cache `prompt` after its lookup, with or without its answer. `path`: the prompt's nodes in the tree."""
        policy = self.policy
        if policy.slots:
            if len(self._slots) == policy.slots:
                self._slots.remove(max(self._slots, key=lambda slot: _num_shared(slot, prompt)))
            self._slots.append(prompt)
        if not policy.breakpoints:
            return
        minimum = policy.minimum_of(request.model)
        for at in self._breakpoints(request):
            if path[at].end >= minimum:
                node, ttl = path[at], request.segments[at].ttl or 0.0
                node.ttl = max(ttl, node.ttl if node.until >= now else 0.0)
                node.until = max(node.until, now + ttl)

    def _breakpoints(self, request: PromptRequest) -> list[int]:
        return [i for i, one in enumerate(request.segments) if one.ttl is not None][-self.policy.most_breakpoints :]

    def _at_breakpoint(self, request: PromptRequest, match: Match, now: float) -> Hit:
        """Return the hit of the longest entry within the lookback of a breakpoint."""
        marks = self._breakpoints(request)
        if not marks:
            return Hit(0, "no_breakpoint" if match.num_tokens else None)
        shared = match.path[1:]
        written = [at for at, node in enumerate(shared) if node.until >= 0]
        alive = [at for at in written if shared[at].until >= now]
        reached = [at for at in alive if any(0 <= mark - at < self.policy.lookback for mark in marks)]
        if reached:
            node = shared[reached[-1]]
            for earlier in reached:  # each use renews the time to live
                shared[earlier].until = max(shared[earlier].until, now + shared[earlier].ttl)
            found = node.end
        else:
            found = 0
        if found == match.num_tokens or not match.num_tokens:
            return Hit(found)
        if len(alive) > len(reached):
            return Hit(found, "breakpoint_out_of_reach")
        if len(written) > len(alive):
            return Hit(found, "expired")
        minimum = self.policy.minimum_of(request.model)
        if match.num_tokens < minimum:
            return Hit(found, "too_short", str(minimum))
        return Hit(found, "rounded")


def _num_shared(one: Prompt, other: Prompt) -> int:
    """Return the number of leading tokens that two prompts share. Their segments may differ."""
    pairs = enumerate(zip(one[0], other[0], strict=False))
    at = next((i for i, (left, right) in pairs if left.content != right.content), min(len(one[0]), len(other[0])))
    return sum(map(len, one[1][:at])) + common_prefix_of_parts(one[1][at:], other[1][at:])


def _num_alive(match: Match, is_alive: Callable[[Node], bool]) -> int:
    """Return the number of leading tokens of the shared prefix that have not expired."""
    end = 0
    for node in match.path[1:]:
        if not is_alive(node):
            return end
        end = node.end
    return match.num_tokens if match.parted is None or is_alive(match.parted) else end
