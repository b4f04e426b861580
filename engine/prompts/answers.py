"""Finds a server's answers in later requests, because the server's cache also has their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from msgspec.structs import replace

from engine.prompts.readers import PromptRequest
from engine.prompts.segments import Segment

MAX_MARKUP = 16  # max tokens per answer and tool call (tags, stop strings) that later requests may lack


def with_answers(requests: Sequence[PromptRequest]) -> list[PromptRequest]:
    """Return the requests with their answers: the next assistant message in the first request that continues them."""
    answers: dict[int, tuple[list[Segment], int]] = {}
    waiting: dict[int, int] = {}  # last request that ended with a prefix, by the prefix's hash
    for index, request in enumerate(requests):
        prefix = hash(request.model)
        for at, segment in enumerate(request.segments):
            if segment.role == "assistant" and prefix in waiting:
                answer = takewhile(lambda one: one.role == "assistant", request.segments[at:])
                answers[waiting.pop(prefix)] = list(answer), index
            prefix = hash((prefix, segment.content))
        waiting[prefix] = index
    return [
        replace(request, answer=answers[index][0], followed_by=answers[index][1]) if index in answers else request
        for index, request in enumerate(requests)
    ]


def num_computed(request: PromptRequest, num_tokens: int) -> int:
    """Return how many tokens of the answer are cached after the prompt.

    `num_tokens`: tokens of the answer in the later request. The last generated token is never computed; without
    reported usage it is assumed to be the end token. Reasoning that is missing in the later request precedes the answer
    in the cache, so the answer does not hit.
    """
    if request.reported_output is None:
        return num_tokens
    num_written = request.reported_output - 1
    num_hidden = request.reported_reasoning
    if num_hidden is None:
        num_calls = sum(segment.kind == "call" for segment in request.answer)
        num_hidden = max(0, num_written - num_tokens - MAX_MARKUP * (1 + num_calls))
    elif any(segment.kind == "reasoning" and segment.text for segment in request.answer):
        num_hidden = 0
    return 0 if num_hidden else max(0, min(num_tokens, num_written))


def cut_to(
    segments: Sequence[Segment], tokens: Sequence[Sequence[int]], count: int
) -> tuple[list[Segment], list[Sequence[int]]]:
    """Return the first `count` tokens of segments, truncating the last segment."""
    found, own = list(segments), list(tokens)
    surplus = sum(map(len, own)) - count
    while own and surplus >= len(own[-1]):
        surplus -= len(own.pop())
        found.pop()
    if own and surplus > 0:
        found[-1] = replace(found[-1], cut=-surplus)
        own[-1] = own[-1][:-surplus]
    return found, own
