"""Prompts as a model's chat template renders them: the tokens that a server computes, cut at the requests' segments.

Each segment's text is looked for in the rendered text, the messages in their order. What the template writes before a
segment is a segment of kind `template`. Cuts are at tokens: a token belongs to the segment in which it begins.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from engine.prompts.answers import cut_to, num_computed
from engine.prompts.readers import PromptRequest, Rendered
from engine.prompts.segments import Content, Segment

if TYPE_CHECKING:
    from engine.model.template_check import ChatTemplate

GENERATION = "generation prompt"  # the path of what a template writes behind the last message


class Conversation(NamedTuple):
    """Input of a chat template; `settings`: its variables, with the tools."""

    messages: list[dict[str, Any]]
    settings: Mapping[str, Any]


class CannotRender(ValueError):
    """A request cannot be rendered; one sentence.

    `refused`: which one, without the reason, in which a template may quote the request.
    """

    def __init__(self, refused: str, reason: object) -> None:
        super().__init__(f"{refused}: {reason}")
        self.refused = refused


def template_of(name: str) -> ChatTemplate | None:
    """Return the chat template of a folder's tokenizer or a hub name's; None if it has none.

    Raises:
        ValueError: it cannot be read; one sentence.
    """
    from engine.model.template_check import NoChatTemplateError, open_template

    try:
        return open_template(name)
    except NoChatTemplateError:
        return None
    except Exception as error:  # transformers raises nothing narrower
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"cannot read the chat template of {name}: {reason}") from error


def rendered(
    requests: Sequence[PromptRequest],
    template: ChatTemplate,
    conversation_of: Callable[[Mapping[str, Any]], Conversation],
) -> list[PromptRequest]:
    """Return requests with their prompts as a template renders them, and with what was computed of their answers.

    Raises:
        CannotRender: the server or the template refuses one.
    """
    cutter, found = _Cutter(), list[PromptRequest]()
    told: list[Conversation] = []
    for index, request in enumerate(requests):
        try:
            told.append(conversation_of(request.body))
            text = template.render(told[-1].messages, add_generation_prompt=True, **told[-1].settings)
            prompt = cutter.cut(text, template.encode(text), template.starts(text), request.segments)
        except (ValueError, NotImplementedError) as error:  # a tokenizer without a fast form has no places of tokens
            raise CannotRender(f"request {index + 1} cannot be rendered", error) from error
        found.append(replace(request, rendered=prompt, held=prompt))
    for index, request in enumerate(found):
        if request.followed_by is None or request.rendered is None:
            continue
        messages, settings = told[index]
        after = told[request.followed_by].messages
        if len(after) <= len(messages) or after[len(messages)]["role"] != "assistant":
            continue
        text, answer = "".join(one.text for one in request.rendered.segments), after[len(messages)]
        try:
            said = template.generated(messages, answer, text, settings)
        except ValueError as error:
            raise CannotRender(f"the answer of request {index + 1} cannot be rendered", error) from error
        if said != answer["content"]:  # what the template writes, up to the token that ends the answer
            said = said.rstrip().removesuffix(template.special_tokens.get("eos_token") or "\0")
        ids = template.encode(said)
        before = [token for own in request.rendered.tokens for token in own]
        starts = [*template.starts(text), *(len(text) + start for start in template.starts(said))]
        whole = cutter.cut(text + said, [*before, *ids], starts, [*request.segments, *request.answer])
        count = len(before) + num_computed(request, len(ids))
        held, tokens = cut_to(whole.segments, whole.tokens, count)
        found[index] = replace(request, held=Rendered(held, tokens, whole.of[: len(held)]))
    return found


class _Cutter:
    """Cuts rendered texts into segments; `cut` of a segment says with which of its tokenizations it was met.

    What is repeated in every prompt is kept once.
    """

    def __init__(self) -> None:
        self._met: dict[Content, list[Sequence[int]]] = {}
        self._same: dict[Segment, Segment] = {}

    def cut(self, text: str, ids: Sequence[int], starts: Sequence[int], segments: Sequence[Segment]) -> Rendered:
        """Cut a text and its tokens, each of which begins at a character of it."""
        found = Rendered([], [], [])
        at = 0
        for index, begin, end in [*_places(text, segments), (len(segments), len(text), len(text))]:
            path = f"{segments[index].path} (template)" if index < len(segments) else GENERATION
            gap = Segment(path, "template", "", text[at:begin])
            one = segments[index] if index < len(segments) else None
            for segment, upto in ((gap, begin), (one, end)):
                first, last = bisect_left(starts, at), bisect_left(starts, upto)
                if segment is None or first >= last:
                    continue
                stop = starts[last] if last < len(starts) else len(text)
                own = ids[first:last]
                met = self._met.setdefault((segment.kind, segment.role, text[at:stop], 0), [])
                if own not in met:
                    met.append(own)
                segment = replace(segment, text=text[at:stop], cut=met.index(own))
                found.segments.append(self._same.setdefault(segment, segment))
                found.tokens.append(met[segment.cut])
                found.of.append(index)
                at = stop
        return found


def _places(text: str, segments: Sequence[Segment]) -> list[tuple[int, int, int]]:
    """Return where segments stand in a rendered text, in its order: index, beginning and end. Some may not stand."""
    found: list[tuple[int, int, int]] = []
    at = tools_at = 0
    for index, segment in enumerate(segments):
        is_tool = segment.kind == "tool"
        begin, length = _found(text, segment, tools_at if is_tool else at)
        if segment.kind == "reasoning":  # a template may leave it out: it comes before what follows it
            rest = next((one for one in segments[index:] if one.kind != "reasoning"), None)
            if rest is not None and 0 <= _found(text, rest, at)[0] <= begin:
                continue
        if begin < 0:
            continue
        found.append((index, begin, begin + length))
        if is_tool:
            tools_at = begin + length
        else:
            at = begin + length
    found.sort(key=lambda place: place[1])
    apart: list[tuple[int, int, int]] = []
    for place in found:
        if not apart or place[1] >= apart[-1][2]:
            apart.append(place)
    return apart


def _found(text: str, segment: Segment, start: int) -> tuple[int, int]:
    """Return where a segment stands in a text from `start` on, and how long it is there; -1: it does not."""
    hits = ((text.find(form, start), len(form)) for form in _forms(segment) if form)
    return min((hit for hit in hits if hit[0] >= 0), default=(-1, 0))


def _forms(segment: Segment) -> Iterator[str]:
    """Yield the forms in which a template may write a segment."""
    yield segment.text
    yield segment.text.strip()
    if segment.kind in ("tool", "call"):
        try:
            value = msgspec.json.decode(segment.text)
        except msgspec.DecodeError:
            return
        for indent in (None, 2, 4):
            yield json.dumps(value, ensure_ascii=False, indent=indent)
