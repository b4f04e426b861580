"""Renders prompts by a model's chat template, and divides the tokens that a server computes into segments.

Template text before a segment of the request is a segment of kind `template`. A token belongs to the segment in which
it begins.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from engine.cache.prefix_memory import common_prefix
from engine.prompts.answers import cut_to, num_computed
from engine.prompts.readers import PromptRequest, Rendered
from engine.prompts.segments import Content, Segment
from engine.prompts.text_positions import Leaf, Place, Skeleton, places_of, skeleton_of, with_marks

if TYPE_CHECKING:
    from engine.model.resumed_template import Rendering
    from engine.model.template_check import ChatTemplate
    from engine.model.text_cuts import Tokens

GENERATION = "generation prompt"  # path of the template text after the last message
MAX_OPEN = 32  # number of conversations whose last prompt is cached, because the next prompt mostly repeats it


class Conversation(NamedTuple):
    """Input of a chat template. `settings`: its variables, including the tools."""

    messages: list[dict[str, Any]]
    settings: Mapping[str, Any]


class CannotRender(ValueError):
    """A request or its answer cannot be rendered. `reason` may quote the request."""

    def __init__(self, number: int, is_answer: bool, reason: object) -> None:
        subject = f"the answer of request {number}" if is_answer else f"request {number}"
        super().__init__(f"{subject} cannot be rendered: {reason}")
        self.number, self.is_answer, self.reason = number, is_answer, str(reason)


def template_of(name: str) -> ChatTemplate | None:
    """Return the chat template of a folder's tokenizer or a hub name, or None. Raises ValueError: unreadable."""
    from engine.model.template_check import NoChatTemplateError, open_template

    try:
        return open_template(name)
    except NoChatTemplateError:
        return None
    except Exception as error:  # transformers raises no narrower type
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"cannot read the chat template of {name}: {reason}") from error


class _Read(NamedTuple):
    """Input of a template for a request. `marked`: the same with a mark instead of each text of `leaves`."""

    conversation: Conversation
    marked: Conversation
    leaves: list[Leaf]


class _Cut(NamedTuple):
    """Rendered text divided into segments.

    `renderings`: renderings of the prompt, without and with marks. `ends`: for each place, the end of its text and the
    number of `parts` up to it.
    """

    text: str
    renderings: tuple[Rendering, Rendering]
    tokens: Tokens
    skeleton: Skeleton
    places: list[Place]
    segments: Sequence[Segment]
    parts: Rendered
    ends: list[tuple[int, int]]


def rendered(
    requests: Sequence[PromptRequest],
    template: ChatTemplate,
    conversation_of: Callable[[Mapping[str, Any]], Conversation],
) -> Iterator[PromptRequest]:
    """Yield the requests with rendered prompts and with the cached part of their answers.

    Raises:
        CannotRender: the server or the template rejects a request.
    """

    @lru_cache(maxsize=MAX_OPEN)
    def read(index: int) -> _Read:
        request = requests[index]
        marked, leaves = with_marks(request.body, request.segments)
        return _Read(conversation_of(request.body), conversation_of(marked), leaves)

    cutter, earlier = _Cutter(), dict[int, tuple[_Cut, _Cut]]()  # continuing request -> prompt, and prompt with answer
    for index, request in enumerate(requests):
        try:
            prompt = _prompt(read(index), template, request, cutter, earlier.pop(index, None))
        except (ValueError, NotImplementedError) as error:  # slow tokenizers have no token offsets
            raise CannotRender(index + 1, False, error) from error
        held = prompt.parts
        if request.followed_by is not None:
            try:
                with_answer = _with_answer(read(index), read(request.followed_by), template, request, cutter, prompt)
            except ValueError as error:
                raise CannotRender(index + 1, True, error) from error
            count = num_computed(request, len(with_answer.tokens.ids) - len(prompt.tokens.ids))
            if count:
                held = _first(with_answer.parts, len(prompt.tokens.ids) + count)
            earlier[request.followed_by] = prompt, with_answer
            if len(earlier) > MAX_OPEN:
                del earlier[next(iter(earlier))]
        yield replace(request, rendered=prompt.parts, held=held)


def _prompt(
    read: _Read,
    template: ChatTemplate,
    request: PromptRequest,
    cutter: _Cutter,
    earlier: tuple[_Cut, _Cut] | None,
) -> _Cut:
    prompt, with_answer = earlier or (None, None)
    before = prompt.renderings if prompt else (None, None)
    renderings = (
        template.rendering(read.conversation.messages, _template_inputs(read.conversation), before[0]),
        template.rendering(read.marked.messages, _template_inputs(read.marked), before[1]),
    )
    text, marked = (one.text for one in renderings)
    tokens = _tokenized(text, template, prompt)
    return cutter.cut(text, renderings, tokens, skeleton_of(marked, read.leaves), request.segments, with_answer)


def _template_inputs(conversation: Conversation) -> dict[str, Any]:
    return {**conversation.settings, "add_generation_prompt": True}


def _tokenized(text: str, template: ChatTemplate, earlier: _Cut | None) -> Tokens:
    """Tokenize a text, reusing the tokens of `earlier` up to a safe cut."""
    if earlier is None:
        return template.tokenize(text)
    count = template.cuts.num_reusable(earlier.text, earlier.tokens, common_prefix(earlier.text, text))
    begin = earlier.tokens.starts[count] if count else 0
    return earlier.tokens.then(template.tokenize(text[begin:]), begin, count)


def _with_answer(
    read: _Read, after: _Read, template: ChatTemplate, request: PromptRequest, cutter: _Cutter, prompt: _Cut
) -> _Cut:
    """Return the prompt with its answer (the next message of a later request), or only the prompt if there is none."""
    number, messages = len(read.conversation.messages), after.conversation.messages
    if len(messages) <= number or messages[number]["role"] != "assistant":
        return prompt
    written, marked = (
        template.generated(one.messages, other.messages[number], before, one.settings)
        for one, other, before in (
            (read.conversation, after.conversation, prompt.renderings[0]),
            (read.marked, after.marked, prompt.renderings[1]),
        )
    )
    if written != messages[number]["content"]:  # the template adds text, up to the end token
        written = written.rstrip().removesuffix(template.special_tokens.get("eos_token") or "\0")
    return cutter.cut(
        prompt.text + written,
        prompt.renderings,
        prompt.tokens.then(template.tokenize(written), len(prompt.text)),
        prompt.skeleton.then(skeleton_of(marked, after.leaves)),
        [*request.segments, *request.answer],
        prompt,
    )


def _first(parts: Rendered, count: int) -> Rendered:
    segments, tokens = cut_to(parts.segments, parts.tokens, count)
    return Rendered(segments, tokens, parts.of[: len(segments)])


class _Cutter:
    """Divides rendered texts into segments. The field `cut` distinguishes tokenizations of the same text.

    Segments and tokens are interned, because prompts repeat them.
    """

    def __init__(self) -> None:
        self._tokenizations: dict[Content, list[Sequence[int]]] = {}
        self._interned: dict[Segment, Segment] = {}

    def cut(
        self,
        text: str,
        renderings: tuple[Rendering, Rendering],
        tokens: Tokens,
        skeleton: Skeleton,
        segments: Sequence[Segment],
        earlier: _Cut | None = None,
    ) -> _Cut:
        """Divide a text and its tokens, reusing the common part of `earlier`."""
        places = places_of(text, skeleton, segments)
        cut = _Cut(text, renderings, tokens, skeleton, places, segments, Rendered([], [], array("I")), [])
        at = 0
        if earlier is not None and (count := _num_same(earlier, cut)):
            cut.ends.extend(earlier.ends[:count])
            at, num_parts = cut.ends[-1]
            cut.parts.segments.extend(earlier.parts.segments[:num_parts])
            cut.parts.tokens.extend(earlier.parts.tokens[:num_parts])
            cut.parts.of.extend(earlier.parts.of[:num_parts])
        for place in places[len(cut.ends) :]:
            segment = segments[place.segment]
            gap = Segment(f"{segment.path} (template)", "template", "", text[at : place.begin])
            at = self._add(cut, gap, place.segment, at, place.begin)
            at = self._add(cut, segment, place.segment, at, place.end)
            cut.ends.append((at, len(cut.parts.segments)))
        self._add(cut, Segment(GENERATION, "template", "", text[at:]), len(segments), at, len(text))
        return cut

    def _add(self, cut: _Cut, segment: Segment, index: int, at: int, upto: int) -> int:
        """Add a segment of the tokens that begin in text[at:upto]. Returns the index where the next token begins."""
        ids, starts, _ = cut.tokens
        first, last = bisect_left(starts, at), bisect_left(starts, upto)
        if first >= last:
            return at
        stop = starts[last] if last < len(starts) else len(cut.text)
        text, own = cut.text[at:stop], ids[first:last]
        tokenizations = self._tokenizations.setdefault((segment.kind, segment.role, text, 0), [])
        if own not in tokenizations:
            tokenizations.append(own)
        segment = replace(segment, text=text, cut=tokenizations.index(own))
        cut.parts.segments.append(self._interned.setdefault(segment, segment))
        cut.parts.tokens.append(tokenizations[segment.cut])
        cut.parts.of.append(index)
        return stop


def _num_same(earlier: _Cut, cut: _Cut) -> int:
    """Return the number of leading places that are equal, including the tokens up to one after their ends."""
    tokens = min(map(common_prefix, earlier.tokens[:2], cut.tokens[:2])) - 1
    same = common_prefix(earlier.segments, cut.segments)
    count = common_prefix(earlier.places, cut.places)
    count = next((i for i, place in enumerate(cut.places[:count]) if place.segment >= same), count)
    if tokens < 0 or not count:
        return 0
    count = min(count, bisect_right(earlier.ends, cut.tokens.starts[tokens], key=itemgetter(0)))
    return count if count and cut.text.startswith(earlier.text[: earlier.ends[count - 1][0]]) else 0
