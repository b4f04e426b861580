"""Proposals that would save tokens. Each changes the requests and runs them through the same caches.

A proposal has the number of saved tokens and an example of a changed request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from engine.cache.prefix_memory import common_prefix
from engine.prompts.causes import VOLATILE
from engine.prompts.readers import PromptRequest
from engine.prompts.report import CacheReplay, Settings, Verdict
from engine.prompts.segments import TTL_SECONDS, Segment

if TYPE_CHECKING:
    from engine.prompts.tokens import Encode

WIDTH = 80  # characters of a text in an example
Kinds = tuple[str, ...]  # kinds of `VOLATILE` that caused breaks


class Saving(Struct, frozen=True):
    """Proposal. `num_tokens`: tokens saved over all requests; `example`: change of one request."""

    proposal: str
    num_tokens: int
    num_requests: int
    example_request: int
    example: list[str]  # lines of a diff


def savings(
    requests: Sequence[PromptRequest], verdicts: Sequence[Verdict], encode: Encode, settings: Settings
) -> list[Saving]:
    """Try the proposals that the breaks suggest. Returns those that save tokens, best first."""
    details = " ".join(v.parted.detail for v in verdicts if v.parted and v.parted.cause == "volatile_text")
    kinds = tuple(kind for kind in VOLATILE if kind in details)
    reasons = {verdict.parted.cause for verdict in verdicts if verdict.parted}
    reasons |= {str(verdict.hits[settings.policy].limit) for verdict in verdicts}
    requests = [replace(one, session=verdict.session) for one, verdict in zip(requests, verdicts, strict=True)]
    before, found = _computed(verdicts, settings), list[Saving]()
    for proposal, (suggested_by, change) in PROPOSALS.items():
        if not suggested_by & reasons:
            continue
        changed = [replace(a, segments=b) for a, b in zip(requests, change(requests, kinds), strict=True)]
        replay = CacheReplay(encode, settings)
        after = _computed([replay.run(request) for request in changed], settings)
        changed_requests = [
            i for i, (a, b) in enumerate(zip(requests, changed, strict=True)) if a.segments != b.segments
        ]
        if after < before and changed_requests:
            example = _diff(requests[changed_requests[0]].segments, changed[changed_requests[0]].segments)
            found.append(Saving(proposal, before - after, len(changed_requests), changed_requests[0], example))
    return sorted(found, key=lambda saving: -saving.num_tokens)


def _computed(verdicts: Sequence[Verdict], settings: Settings) -> int:
    return sum(verdict.num_tokens - verdict.hits[settings.policy].num_tokens for verdict in verdicts)


def _sort_tools(requests: Sequence[PromptRequest], kinds: Kinds) -> list[list[Segment]]:
    canonical = cache(_canonical)  # requests repeat the tools
    return [
        [*sorted(map(canonical, _tools(one)), key=lambda tool: tool.text), *_others(one)] for one in requests
    ]  # fmt: skip


def _all_tools(requests: Sequence[PromptRequest], kinds: Kinds) -> list[list[Segment]]:
    """Declare all tools of a session and model from the first request on."""
    declared: dict[tuple[str, str], dict[str, Segment]] = {}
    for one in requests:
        declared.setdefault((one.session, one.model), {}).update((tool.text, tool) for tool in _tools(one))
    return [[*declared[one.session, one.model].values(), *_others(one)] for one in requests]


def _tools(request: PromptRequest) -> list[Segment]:
    return [one for one in request.segments if one.kind == "tool"]


def _others(request: PromptRequest) -> list[Segment]:
    return [one for one in request.segments if one.kind != "tool"]


def _volatile_last(requests: Sequence[PromptRequest], kinds: Kinds) -> list[list[Segment]]:
    """Move volatile parts of system prompts to a message at the end."""
    return [_with_volatile_last(one.segments, kinds) for one in requests]


def _with_volatile_last(segments: Sequence[Segment], kinds: Kinds) -> list[Segment]:
    rest, moved = list[Segment](), list[Segment]()
    for segment in segments:
        remaining, removed = _split(segment.text, kinds) if segment.kind == "system" else (segment.text, "")
        rest.append(replace(segment, text=remaining) if removed else segment)
        if removed:
            moved.append(Segment(f"{segment.path} (moved)", "message", "user", removed))
    return [*rest, *moved]


@lru_cache(maxsize=64)  # requests repeat the system prompt
def _split(text: str, kinds: Kinds) -> tuple[str, str]:
    """Return a text without its volatile parts, and the parts."""
    removed = list[str]()

    def remove(found: re.Match[str]) -> str:
        removed.append(found.group())
        return ""

    for kind in kinds:
        text = VOLATILE[kind].sub(remove, text)
    return text, " ".join(removed)


def _breakpoint_last(requests: Sequence[PromptRequest], kinds: Kinds) -> list[list[Segment]]:
    last_segments = [one.segments[-1] for one in requests]
    return [
        [*one.segments[:-1], replace(last, ttl=last.ttl or TTL_SECONDS["5m"])]
        for one, last in zip(requests, last_segments, strict=True)
    ]


Change = Callable[[Sequence[PromptRequest], Kinds], list[list[Segment]]]  # returns the segments of each request
PROPOSALS: dict[str, tuple[set[str], Change]] = {  # proposal -> causes and limits that suggest it, change
    "sort_tools": ({"tools_reordered", "schema_keys_reordered"}, _sort_tools),
    "all_tools": ({"tools_added", "tools_removed", "tools_replaced"}, _all_tools),
    "volatile_last": ({"volatile_text"}, _volatile_last),
    "breakpoint_last": ({"no_breakpoint", "breakpoint_out_of_reach"}, _breakpoint_last),
}


def _canonical(segment: Segment) -> Segment:
    text = msgspec.json.encode(msgspec.json.decode(segment.text), order="sorted").decode()
    return replace(segment, text=text)


def _around(text: str, other: str) -> str:
    """Return at most WIDTH characters of a text, from shortly before it differs from `other`."""
    if text == other:
        return text[:WIDTH]
    begin = max(0, min(common_prefix(text, other), len(text)) - WIDTH // 2)
    return ("…" if begin else "") + text[begin : begin + WIDTH]


def _diff(old: Sequence[Segment], new: Sequence[Segment]) -> list[str]:
    """Return the segments that differ as lines of a diff, with context."""
    old_contents, new_contents = {one.content for one in old}, {one.content for one in new}
    marked = {one.path for one in old if one.ttl is not None}
    removed = {one.path: one.text for one in old if one.content not in new_contents}
    added = {one.path: one.text for one in new if one.content not in old_contents}
    lines = [f"- {path}: {_around(text, added.get(path, text))}" for path, text in removed.items()]
    lines += [f"+ {path}: {_around(text, removed.get(path, text))}" for path, text in added.items()]
    lines += [f"+ cache_control on {one.path}" for one in new if one.ttl and one.path not in marked]
    if not lines:
        lines = [f"- order: {', '.join(one.path for one in old[:6])}", "+ order: sorted"]
    return lines[:8]
