"""Find where the texts of a request stand in its rendered prompt.

The template renders the conversation a second time, with a mark in place of each text. What stands between the marks is
the template's own: a text is looked for behind what the template writes before it, so a short text such as "user" is
not found in `<|im_start|>user`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from engine.cache.prefix_memory import common_prefix
from engine.prompts.segments import Segment

MARK = re.compile("\ue000([0-9]{1,9})\ue001")  # of private use: no text in a language has it
STEP = re.compile(r"\[(\d+)\]|(\w+)")
TEXTS = ("text", "thinking", "data", "content", "summary", "output")  # keys of a block under which its text stands
AS_JSON = ("tool", "call")  # kinds that a template writes as JSON, if it does


class Leaf(NamedTuple):
    """Text of a request: all of a segment's, or one of several. `segment`: its index."""

    segment: int
    text: str


class Place(NamedTuple):
    """Where a segment stands in a rendered text."""

    segment: int
    begin: int
    end: int


class Skeleton(NamedTuple):
    """Texts of a template around those of a request: `gaps[i]` before `leaves[i]`, the last gap after the last one."""

    gaps: list[str]
    leaves: list[Leaf]

    def then(self, other: Skeleton) -> Skeleton:
        """Return the skeleton of two rendered texts, one right behind the other."""
        seam = self.gaps[-1] + other.gaps[0]
        return Skeleton([*self.gaps[:-1], seam, *other.gaps[1:]], [*self.leaves, *other.leaves])


def with_marks(body: Mapping[str, Any], segments: Sequence[Segment]) -> tuple[dict[str, Any], list[Leaf]]:
    """Return a request body with a mark in place of each text, and the texts in the order of the marks' numbers.

    Texts of white space alone are not marked: a template may treat them as no text.
    """
    marked, leaves, copied = dict(body), list[Leaf](), set[int]()
    for index, segment in enumerate(segments):
        if segment.kind in AS_JSON or segment.kind == "image":
            continue
        *path, last = _steps(segment.path)
        part: Any = marked
        for step in path:
            inner = part[step]
            if id(inner) not in copied:
                inner = part[step] = inner.copy()
                copied.add(id(inner))
            part = inner
        part[last] = _marked(part[last], index, leaves)
    return marked, leaves


def skeleton_of(rendered: str, leaves: Sequence[Leaf]) -> Skeleton:
    """Return what stands around the marks of a text that was rendered with them."""
    found, at = Skeleton([], []), 0
    for mark in MARK.finditer(rendered):
        if int(mark[1]) < len(leaves):  # else a tool quotes a mark
            found.gaps.append(rendered[at : mark.start()])
            found.leaves.append(leaves[int(mark[1])])
            at = mark.end()
    found.gaps.append(rendered[at:])
    return found


def places_of(text: str, skeleton: Skeleton, segments: Sequence[Segment]) -> list[Place]:
    """Return the places of segments in a rendered text, in the text's order, without those that it does not have."""
    found = _texts(text, skeleton)
    return sorted([*found, *_json(text, segments, found)], key=lambda place: place.begin)


@lru_cache(maxsize=1 << 16)
def _steps(path: str) -> tuple[str | int, ...]:
    return tuple(int(number) if number else name for number, name in STEP.findall(path))


def _marked(value: Any, segment: int, leaves: list[Leaf]) -> Any:
    if isinstance(value, str):
        if not value.strip():
            return value
        leaves.append(Leaf(segment, value))
        return f"\ue000{len(leaves) - 1}\ue001"
    if isinstance(value, list):
        return [_marked(one, segment, leaves) for one in value]
    if isinstance(value, dict):
        return {key: _marked(one, segment, leaves) if key in TEXTS else one for key, one in value.items()}
    return value


def _spaces(text: str) -> tuple[str, str]:
    """Return the white space at the beginning and at the end of a text."""
    return text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]


def _texts(text: str, skeleton: Skeleton) -> list[Place]:
    found, met = list[Place](), set[int]()
    at, is_exact = 0, True  # whether the text before ends at `at`
    for number, leaf in enumerate(skeleton.leaves):
        place = _next(text, at, is_exact, skeleton.gaps[number], leaf.text, skeleton.gaps[number + 1])
        is_exact = place is not None
        if place is None:
            continue
        begin, at = place
        if id(leaf) in met:  # the template writes it twice
            continue
        met.add(id(leaf))
        if found and found[-1].segment == leaf.segment:
            found[-1] = found[-1]._replace(end=at)
        else:
            found.append(Place(leaf.segment, begin, at))
    return found


def _next(text: str, at: int, is_exact: bool, gap: str, leaf: str, after: str) -> tuple[int, int] | None:
    """Return where a text begins and ends in a rendered one from `at` on; None if it does not stand there.

    `gap` and `after` are what the template writes before and after it with marks. Where it writes something else before
    it without them, the text is found by what comes after it.
    """
    begin = at + len(gap)
    starts_here = is_exact and text.startswith(gap, at)
    if starts_here and text.startswith(leaf, begin) and text.startswith(after, begin + len(leaf)):
        return begin, begin + len(leaf)  # which the rest finds too, for most texts of a prompt
    core, (lead, trail) = leaf.strip(), _spaces(leaf)
    if starts_here:
        for cut in range(len(lead) + 1):
            if text.startswith(lead[cut:] + core, begin):
                end = begin + len(lead) - cut + len(core)
                return begin, end + _num_kept(text, end, trail, after)
    forms = dict.fromkeys((leaf, lead + core, core + trail, core))
    hits = [] if is_exact else [(text.find(gap + form, at), len(gap), form) for form in forms]
    if not any(begin >= 0 for begin, _, _ in hits):
        start = at + common_prefix(gap, text[at : at + len(gap)])
        hits = [(text.find(form + after, start), 0, form) for form in forms]
    places = [(hit + skip, hit + skip + len(form)) for hit, skip, form in hits if hit >= 0]
    return min(places, key=lambda place: (place[0], -place[1]), default=None)  # with its white space where it is there


def _num_kept(text: str, end: int, trail: str, after: str) -> int:
    """Return how many characters of the white space at a text's end are rendered: `after` follows them."""
    for count in range(len(trail), -1, -1):
        if text.startswith(trail[:count] + after, end):
            return count
    return common_prefix(trail, text[end : end + len(trail)])


def _json(text: str, segments: Sequence[Segment], texts: Sequence[Place]) -> Iterator[Place]:
    """Yield the places of tools, and of the calls of a message, between those of the texts."""
    begins, numbers = [place.begin for place in texts], [place.segment for place in texts]
    ends = [0, *(place.end for place in texts)]
    between = "\0".join(text[end:begin] for end, begin in zip(ends, [*begins, len(text)], strict=True))
    at = tools_at = 0
    for index, segment in enumerate(segments):
        if segment.kind not in AS_JSON:
            continue
        if segment.kind == "tool":
            start, limit = tools_at, len(text)
        else:  # before or behind the texts of its message
            first = last = bisect_right(numbers, index)
            while first and segments[numbers[first - 1]].message == segment.message:
                first -= 1
            while last < len(texts) and segments[numbers[last]].message == segment.message:
                last += 1
            start, limit = max(at, ends[first]), texts[last].begin if last < len(texts) else len(text)
        for form in _forms(segment.text):
            if segment.kind == "tool" and form not in between:  # a call is looked for in its message alone
                continue
            begin = _find_between(text, form, start, limit, texts, begins)
            if begin >= 0:
                yield Place(index, begin, begin + len(form))
                at, tools_at = (at, begin + len(form)) if segment.kind == "tool" else (begin + len(form), tools_at)
                break


def _find_between(text: str, form: str, start: int, limit: int, texts: Sequence[Place], begins: Sequence[int]) -> int:
    """Return where `form` stands first in text[start:limit] without touching a place of `texts`; -1: nowhere."""
    while (begin := text.find(form, start, limit)) >= 0:
        number = bisect_right(begins, begin)
        if number and texts[number - 1].end > begin:
            start = texts[number - 1].end
        elif number < len(texts) and begins[number] < begin + len(form):
            start = begin + 1
        else:
            return begin
    return -1


@lru_cache(maxsize=1 << 12)
def _forms(text: str) -> tuple[str, ...]:
    """Return the forms in which a template may write a tool or a call."""
    try:
        value = msgspec.json.decode(text)
        if isinstance(value, list) and len(value) == 2:
            value = {"name": value[0], "arguments": value[1]}
        if isinstance(value, dict) and isinstance(given := value.get("arguments"), str):
            value = {**value, "arguments": msgspec.json.decode(given) if given else {}}
    except (msgspec.DecodeError, RecursionError):
        return (text,)
    return text, *(json.dumps(value, ensure_ascii=False, indent=indent) for indent in (None, 2, 4))
