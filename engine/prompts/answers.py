"""Answers of a server, found in later requests: the server's cache holds their tokens too."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from msgspec.structs import replace

from engine.prompts.readers import PromptRequest
from engine.prompts.segments import Segment

MAX_MARKUP = 16  # tokens of an answer, and of each tool call in it, that need not come back: tags, or a stop string


def with_answers(requests: Sequence[PromptRequest]) -> list[PromptRequest]:
    """Return requests with their answers: the assistant's next message in the first later request that continues."""
    answers: dict[int, tuple[list[Segment], int]] = {}
    waiting: dict[int, int] = {}  # the last request that ended with a prefix, by its hash
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
    """Return how many tokens of the answer a cache has right behind the prompt. `num_tokens`: of the answer as it came
    back.

    The last generated token is never computed; if usage is not reported, it ended the answer. Reasoning that did not
    come back stands before the answer in the cache, so that nothing of the answer hits.
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
    """Return the first `count` tokens of segments, the last segment cut where it has more."""
    found, own = list(segments), list(tokens)
    surplus = sum(map(len, own)) - count
    while own and surplus >= len(own[-1]):
        surplus -= len(own.pop())
        found.pop()
    if own and surplus > 0:
        found[-1] = replace(found[-1], cut=-surplus)
        own[-1] = own[-1][:-surplus]
    return found, own
