"""Finds the texts of a request in its rendered prompt.

The template renders the conversation a second time with marks instead of texts. Text between marks is template text,
and a text is searched after the template text that precedes it, so that a short text such as "user" is not found in
`<|im_start|>user`.
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

MARK = re.compile("\ue000([0-9]{1,9})\ue001")  # private-use characters, which do not occur in texts
STEP = re.compile(r"\[(\d+)\]|(\w+)")
TEXTS = ("text", "thinking", "data", "content", "summary", "output")  # keys of texts in a block
AS_JSON = ("tool", "call")  # kinds that templates render as JSON


class Leaf(NamedTuple):
    """A text of a request. `segment`: index of its segment, which may have several texts."""

    segment: int
    text: str


class Place(NamedTuple):
    """Position of a segment in a rendered text."""

    segment: int
    begin: int
    end: int


class Skeleton(NamedTuple):
    """Texts of a request and the template texts between them: `gaps[i]` precedes `leaves[i]`, and the last gap ends."""

    gaps: list[str]
    leaves: list[Leaf]

    def then(self, other: Skeleton) -> Skeleton:
        """Return the skeleton of two concatenated rendered texts."""
        seam = self.gaps[-1] + other.gaps[0]
        return Skeleton([*self.gaps[:-1], seam, *other.gaps[1:]], [*self.leaves, *other.leaves])


def with_marks(body: Mapping[str, Any], segments: Sequence[Segment]) -> tuple[dict[str, Any], list[Leaf]]:
    """Return the request body with a numbered mark instead of each text, and the texts by number.

    Whitespace-only texts are not marked, because a template may treat them as empty.
    """
    marked, leaves, copied = dict(body), list[Leaf](), set[int]()
    for index, segment in enumerate(segments):
        if segment.kind in AS_JSON or segment.kind == "image":
            continue
        *path, last = _split_path(segment.path)
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
    """Return the skeleton of a text that was rendered with marks."""
    found, at = Skeleton([], []), 0
    for mark in MARK.finditer(rendered):
        if int(mark[1]) < len(leaves):  # otherwise a tool contains the characters of a mark
            found.gaps.append(rendered[at : mark.start()])
            found.leaves.append(leaves[int(mark[1])])
            at = mark.end()
    found.gaps.append(rendered[at:])
    return found


def places_of(text: str, skeleton: Skeleton, segments: Sequence[Segment]) -> list[Place]:
    """Return the positions of the segments found in a rendered text, in text order."""
    found = _text_places(text, skeleton)
    return sorted([*found, *_json_places(text, segments, found)], key=lambda place: place.begin)


@lru_cache(maxsize=1 << 16)
def _split_path(path: str) -> tuple[str | int, ...]:
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


def _outer_whitespace(text: str) -> tuple[str, str]:
    """Return the whitespace at the beginning and at the end of a text."""
    return text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]


def _text_places(text: str, skeleton: Skeleton) -> list[Place]:
    found, found_leaves = list[Place](), set[int]()
    at, is_exact = 0, True  # whether the previous text ends at `at`
    for number, leaf in enumerate(skeleton.leaves):
        place = _find_leaf(text, at, is_exact, skeleton.gaps[number], leaf.text, skeleton.gaps[number + 1])
        is_exact = place is not None
        if place is None:
            continue
        begin, at = place
        if id(leaf) in found_leaves:  # the template renders it twice
            continue
        found_leaves.add(id(leaf))
        if found and found[-1].segment == leaf.segment:
            found[-1] = found[-1]._replace(end=at)
        else:
            found.append(Place(leaf.segment, begin, at))
    return found


def _find_leaf(text: str, at: int, is_exact: bool, gap: str, leaf: str, after: str) -> tuple[int, int] | None:
    """Return begin and end of `leaf` in the rendered text from `at` on, or None.

    `gap`, `after`: template texts before and after it in the rendering with marks. If `gap` differs without marks, the
    leaf is found by `after`.
    """
    begin = at + len(gap)
    starts_here = is_exact and text.startswith(gap, at)
    if starts_here and text.startswith(leaf, begin) and text.startswith(after, begin + len(leaf)):
        return begin, begin + len(leaf)  # fast path for most texts
    core, (lead, trail) = leaf.strip(), _outer_whitespace(leaf)
    if starts_here:
        for cut in range(len(lead) + 1):
            if text.startswith(lead[cut:] + core, begin):
                end = begin + len(lead) - cut + len(core)
                return begin, end + _num_rendered(text, end, trail, after)
    forms = dict.fromkeys((leaf, lead + core, core + trail, core))
    hits = [] if is_exact else [(text.find(gap + form, at), len(gap), form) for form in forms]
    if not any(begin >= 0 for begin, _, _ in hits):
        start = at + common_prefix(gap, text[at : at + len(gap)])
        hits = [(text.find(form + after, start), 0, form) for form in forms]
    places = [(hit + skip, hit + skip + len(form)) for hit, skip, form in hits if hit >= 0]
    # the earliest, with as much whitespace as possible
    return min(places, key=lambda place: (place[0], -place[1]), default=None)


def _num_rendered(text: str, end: int, trail: str, after: str) -> int:
    """Return how many characters of the trailing whitespace `trail` are rendered before `after`."""
    for count in range(len(trail), -1, -1):
        if text.startswith(trail[:count] + after, end):
            return count
    return common_prefix(trail, text[end : end + len(trail)])


def _json_places(text: str, segments: Sequence[Segment], texts: Sequence[Place]) -> Iterator[Place]:
    """Yield the positions of tools and calls, which are between the positions of texts."""
    begins, numbers = [place.begin for place in texts], [place.segment for place in texts]
    ends = [0, *(place.end for place in texts)]
    between = "\0".join(text[end:begin] for end, begin in zip(ends, [*begins, len(text)], strict=True))
    at = tools_at = 0
    for index, segment in enumerate(segments):
        if segment.kind not in AS_JSON:
            continue
        if segment.kind == "tool":
            start, limit = tools_at, len(text)
        else:  # the call is before or after the texts of its message
            first = last = bisect_right(numbers, index)
            while first and segments[numbers[first - 1]].message == segment.message:
                first -= 1
            while last < len(texts) and segments[numbers[last]].message == segment.message:
                last += 1
            start, limit = max(at, ends[first]), texts[last].begin if last < len(texts) else len(text)
        for form in _json_forms(segment.text):
            if segment.kind == "tool" and form not in between:  # calls are searched only in their message
                continue
            begin = _find_between(text, form, start, limit, texts, begins)
            if begin >= 0:
                yield Place(index, begin, begin + len(form))
                at, tools_at = (at, begin + len(form)) if segment.kind == "tool" else (begin + len(form), tools_at)
                break


def _find_between(text: str, form: str, start: int, limit: int, texts: Sequence[Place], begins: Sequence[int]) -> int:
    """Return the first index of `form` in text[start:limit] that is outside the places `texts`, or -1."""
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
def _json_forms(text: str) -> tuple[str, ...]:
    """Return the JSON forms in which a template may render a tool or a call."""
    try:
        value = msgspec.json.decode(text)
        if isinstance(value, list) and len(value) == 2:
            value = {"name": value[0], "arguments": value[1]}
        if isinstance(value, dict) and isinstance(arguments := value.get("arguments"), str):
            value = {**value, "arguments": msgspec.json.decode(arguments) if arguments else {}}
    except (msgspec.DecodeError, RecursionError):
        return (text,)
    return text, *(json.dumps(value, ensure_ascii=False, indent=indent) for indent in (None, 2, 4))
