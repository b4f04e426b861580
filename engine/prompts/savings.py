"""What would save most: the same requests with one thing put elsewhere, played through the same caches.

Each is a proposal, with the tokens that it saves and an example of what changes in a request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from engine.prompts.causes import VOLATILE
from engine.prompts.readers import PromptRequest
from engine.prompts.report import Encode, Player, Settings, Verdict
from engine.prompts.segments import Segment

MOVED = "moved"  # in the path of what a proposal adds


class Saving(Struct, frozen=True):
    """A proposal. `num_tokens`: that hit in addition, over all requests; `example`: in which request it changes what."""

    proposal: str
    num_tokens: int
    num_requests: int
    example_request: int
    example: list[str]  # lines of a diff


def savings(
    requests: Sequence[PromptRequest], verdicts: Sequence[Verdict], encode: Encode, settings: Settings
) -> list[Saving]:
    """Try every proposal that the breaks call for; those that save, the best first."""
    causes = {verdict.parted.cause for verdict in verdicts if verdict.parted}
    before = sum(verdict.hits[settings.policy].num_tokens for verdict in verdicts)
    found = []
    for proposal, (wanted, change) in PROPOSALS.items():
        limits = {verdict.hits[settings.policy].limit for verdict in verdicts}
        if not wanted & (causes | limits):
            continue
        changed = [replace(request, segments=change(request, requests)) for request in requests]
        player = Player(encode, settings)
        after = sum(player.play(request).hits[settings.policy].num_tokens for request in changed)
        those = [i for i, (a, b) in enumerate(zip(requests, changed, strict=True)) if a.segments != b.segments]
        if after > before and those:
            example = _diff(requests[those[0]].segments, changed[those[0]].segments)
            found.append(Saving(proposal, after - before, len(those), those[0], example))
    return sorted(found, key=lambda saving: -saving.num_tokens)


def _sort_tools(request: PromptRequest, requests: Sequence[PromptRequest]) -> list[Segment]:
    tools = sorted((_canonical(one) for one in request.segments if one.kind == "tool"), key=lambda one: one.text)
    return [*tools, *(one for one in request.segments if one.kind != "tool")]


def _all_tools(request: PromptRequest, requests: Sequence[PromptRequest]) -> list[Segment]:
    """Every tool that any request of the same session and model declares, from the first request on."""
    alike = [one for one in requests if (one.session, one.model) == (request.session, request.model)]
    tools = {segment.text: segment for one in alike for segment in one.segments if segment.kind == "tool"}
    return [*tools.values(), *(one for one in request.segments if one.kind != "tool")]


def _volatile_last(request: PromptRequest, requests: Sequence[PromptRequest]) -> list[Segment]:
    """Dates, identifiers, paths and numbers of system prompts in a message at the end."""
    moved, rest = list[Segment](), list[Segment]()
    for segment in request.segments:
        text = segment.text
        if segment.kind == "system":
            for pattern in VOLATILE.values():
                text = pattern.sub("", text)
        if text != segment.text:
            taken = " ".join(word for word in segment.text.split() if word not in text.split())
            moved.append(Segment(f"{segment.path} ({MOVED})", "message", "user", taken))
        rest.append(replace(segment, text=text))
    return [*rest, *moved]


def _breakpoint_last(request: PromptRequest, requests: Sequence[PromptRequest]) -> list[Segment]:
    *others, last = request.segments
    return [*others, replace(last, kept=last.kept or 300.0)]


PROPOSALS: dict[str, tuple[set[str | None], Callable[[PromptRequest, Sequence[PromptRequest]], list[Segment]]]] = {
    "sort the tools, and the keys of their schemas": ({"tools_reordered", "schema_keys_reordered"}, _sort_tools),
    "declare all tools from the first request on": ({"tools_added", "tools_removed", "tools_replaced"}, _all_tools),
    "move what changes out of the system prompt, behind the messages": ({"volatile_text"}, _volatile_last),
    "put a cache_control on the last block": ({"no_breakpoint", "breakpoint_out_of_reach"}, _breakpoint_last),
}


def _canonical(segment: Segment) -> Segment:
    text = msgspec.json.encode(msgspec.json.decode(segment.text), order="sorted").decode()
    return replace(segment, text=text)


def _diff(old: Sequence[Segment], new: Sequence[Segment]) -> list[str]:
    """Return the segments that differ, as lines that begin with "-" or "+"; of each the beginning."""
    mine, others = {one.content for one in old}, {one.content for one in new}
    marked = [one.content for one in old if one.kept is not None], [one.content for one in new if one.kept is not None]
    lines = [f"- {one.path}: {one.text[:80]}" for one in old if one.content not in others]
    lines += [f"+ {one.path}: {one.text[:80]}" for one in new if one.content not in mine]
    lines += [f"+ cache_control on {one.path}" for one in new if one.kept and one.content not in marked[0]]
    if not lines:
        lines = [f"- order: {', '.join(one.path for one in old[:6])}", "+ order: sorted"]
    return lines[:8]
