"""Answers of a server, found in the requests that follow: a server's cache has their tokens, too."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from msgspec.structs import replace

from engine.prompts.readers import PromptRequest
from engine.prompts.segments import Segment


def with_answers(requests: Sequence[PromptRequest]) -> list[PromptRequest]:
    """Return requests with their answers: what the assistant says next in the first later request that goes on."""
    answers: dict[int, tuple[list[Segment], int]] = {}
    waiting: dict[int, int] = {}  # the last request that ended with a prefix, by its hash
    for index, request in enumerate(requests):
        prefix = hash(request.model)
        for at, segment in enumerate(request.segments):
            if segment.role == "assistant" and prefix in waiting:
                said = takewhile(lambda one: one.role == "assistant", request.segments[at:])
                answers[waiting.pop(prefix)] = list(said), index
            prefix = hash((prefix, segment.content))
        waiting[prefix] = index
    return [
        replace(request, answer=answers[index][0], followed_by=answers[index][1]) if index in answers else request
        for index, request in enumerate(requests)
    ]


def num_computed(num_tokens: int, reported: int | None) -> int:
    """Return how many of an answer's tokens a cache has: all but the last one that was generated.

    `reported`: generated tokens, of which the last one ends the answer or was the last that was allowed. None: not
    reported; the answer ended by itself.
    """
    return num_tokens if reported is None else max(0, min(num_tokens, reported - 1))


def cut_to(
    segments: Sequence[Segment], tokens: Sequence[Sequence[int]], count: int
) -> tuple[list[Segment], list[Sequence[int]]]:
    """Return the first `count` tokens of segments, the last segment cut where it has more."""
    found, own = list[Segment](), list[Sequence[int]]()
    for segment, of_it in zip(segments, tokens, strict=True):
        if count <= 0:
            break
        less = len(of_it) - count
        found.append(replace(segment, cut=-less) if less > 0 else segment)
        own.append(of_it[:count] if less > 0 else of_it)
        count -= len(of_it)
    return found, own
