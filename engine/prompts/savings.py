"""Proposals that would save tokens: the same requests with one thing put elsewhere, played through the same caches.

Each is a proposal, with the tokens that it saves and an example of what changes in a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from engine.prompts.causes import VOLATILE
from engine.prompts.readers import PromptRequest
from engine.prompts.report import Player, Settings, Verdict
from engine.prompts.segments import Segment

if TYPE_CHECKING:
    from engine.prompts.tokens import Encode

Kinds = tuple[str, ...]  # of `VOLATILE`: what changed somewhere


class Saving(Struct, frozen=True):
    """Proposal. `num_tokens`: that need not be computed, over all requests; `example`: what changes in a request."""

    proposal: str
    num_tokens: int
    num_requests: int
    example_request: int
    example: list[str]  # lines of a diff


def savings(
    requests: Sequence[PromptRequest], verdicts: Sequence[Verdict], encode: Encode, settings: Settings
) -> list[Saving]:
    """Try every proposal that the breaks call for; those that save, the best first."""
    details = " ".join(v.parted.detail for v in verdicts if v.parted and v.parted.cause == "volatile_text")
    kinds = tuple(kind for kind in VOLATILE if kind in details)
    causes = {verdict.parted.cause for verdict in verdicts if verdict.parted}
    requests = [replace(one, session=verdict.session) for one, verdict in zip(requests, verdicts, strict=True)]
    before, found = _computed(verdicts, settings), list[Saving]()
    for proposal, (wanted, change) in PROPOSALS.items():
        limits = {verdict.hits[settings.policy].limit for verdict in verdicts}
        if not wanted & (causes | limits):
            continue
        changed = [replace(request, segments=change(request, requests, kinds)) for request in requests]
        player = Player(encode, settings)
        after = _computed([player.play(request) for request in changed], settings)
        those = [i for i, (a, b) in enumerate(zip(requests, changed, strict=True)) if a.segments != b.segments]
        if after < before and those:
            example = _diff(requests[those[0]].segments, changed[those[0]].segments)
            found.append(Saving(proposal, before - after, len(those), those[0], example))
    return sorted(found, key=lambda saving: -saving.num_tokens)


def _computed(verdicts: Sequence[Verdict], settings: Settings) -> int:
    return sum(verdict.num_tokens - verdict.hits[settings.policy].num_tokens for verdict in verdicts)


def _sort_tools(request: PromptRequest, requests: Sequence[PromptRequest], kinds: Kinds) -> list[Segment]:
    tools = sorted((_canonical(one) for one in request.segments if one.kind == "tool"), key=lambda one: one.text)
    return [*tools, *(one for one in request.segments if one.kind != "tool")]


def _all_tools(request: PromptRequest, requests: Sequence[PromptRequest], kinds: Kinds) -> list[Segment]:
    """Declare every tool that any request of the same session and model declares, from the first request on."""
    alike = [one for one in requests if (one.session, one.model) == (request.session, request.model)]
    tools = {segment.text: segment for one in alike for segment in one.segments if segment.kind == "tool"}
    return [*tools.values(), *(one for one in request.segments if one.kind != "tool")]


def _volatile_last(request: PromptRequest, requests: Sequence[PromptRequest], kinds: Kinds) -> list[Segment]:
    """Move what changes by itself in system prompts to a message at the end."""
    rest, moved = list[Segment](), list[Segment]()
    for segment in request.segments:
        kept, taken = _split(segment.text, kinds) if segment.kind == "system" else (segment.text, "")
        rest.append(replace(segment, text=kept))
        if taken:
            moved.append(Segment(f"{segment.path} (moved)", "message", "user", taken))
    return [*rest, *moved]


@lru_cache(maxsize=64)  # a system prompt comes in every request
def _split(text: str, kinds: Kinds) -> tuple[str, str]:
    """Return a text without what may change by itself, and that."""
    taken = list[str]()

    def take(found: re.Match[str]) -> str:
        taken.append(found.group())
        return ""

    for kind in kinds:
        text = VOLATILE[kind].sub(take, text)
    return text, " ".join(taken)


def _breakpoint_last(request: PromptRequest, requests: Sequence[PromptRequest], kinds: Kinds) -> list[Segment]:
    *others, last = request.segments
    return [*others, replace(last, kept=last.kept or 300.0)]


PROPOSALS: dict[
    str, tuple[set[str | None], Callable[[PromptRequest, Sequence[PromptRequest], Kinds], list[Segment]]]
] = {
    "sort_tools": ({"tools_reordered", "schema_keys_reordered"}, _sort_tools),
    "all_tools": ({"tools_added", "tools_removed", "tools_replaced"}, _all_tools),
    "volatile_last": ({"volatile_text"}, _volatile_last),
    "breakpoint_last": ({"no_breakpoint", "breakpoint_out_of_reach"}, _breakpoint_last),
}


def _canonical(segment: Segment) -> Segment:
    text = msgspec.json.encode(msgspec.json.decode(segment.text), order="sorted").decode()
    return replace(segment, text=text)


def _diff(old: Sequence[Segment], new: Sequence[Segment]) -> list[str]:
    """Return the segments that differ, as lines that begin with "-" or "+"; of each the beginning."""
    mine, others = {one.content for one in old}, {one.content for one in new}
    marked = {one.path for one in old if one.kept is not None}
    lines = [f"- {one.path}: {one.text[:80]}" for one in old if one.content not in others]
    lines += [f"+ {one.path}: {one.text[:80]}" for one in new if one.content not in mine]
    lines += [f"+ cache_control on {one.path}" for one in new if one.kept and one.path not in marked]
    if not lines:
        lines = [f"- order: {', '.join(one.path for one in old[:6])}", "+ order: sorted"]
    return lines[:8]
