"""Parser of reasoning, content and tool calls in generated text, whole or incremental."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from jinja2 import Environment

from app.models.engine_face import ServedModel
from app.openai.tool_calls import Calls, Format, format_of, overlap
from engine.trace.records import Output

THINK, THOUGHT = "<think>", "</think>"
TAIL = 8  # tokens at the end of a prompt that are searched for the beginning of reasoning


class Reading(NamedTuple):
    """Parser settings for the generated text of a request."""

    format: Format | None = None  # of tool calls; None: they are not parsed
    thinks: bool | None = None  # whether the text begins within reasoning; None: it has none
    parallel: bool = True  # False: only the first of several tool calls is returned
    marks: Mapping[int, str] = {}  # special tokens that delimit parts, by id; they are in no text


class ParsedOutput(NamedTuple):
    """Parsed parts of a piece of text."""

    reasoning: str
    content: str
    calls: Calls


def reading_of(model: ServedModel, prompt: Sequence[int], has_tools: bool, parallel: bool) -> Reading | None:
    """Return the parser settings that follow from the model's chat template; None if its texts are plain."""
    template = model.chat_template
    format = format_of(template) if has_tools else None
    thinks: bool | None = None
    if THOUGHT in template:
        tail = b"".join(map(model.token_bytes, prompt[-TAIL:])).decode("utf-8", "replace")
        thinks = tail.rstrip().endswith(THINK)
    if format is None and thinks is None:
        return None
    texts = (*(format.marks if format else ()), *(() if thinks is None else (THINK, THOUGHT)))
    special = model.special_tokens
    return Reading(format, thinks, parallel, {special[text]: text for text in texts if text in special})


@lru_cache(16)
def reads_tools(template: str) -> bool:
    """Return whether a chat template reads the tools of a request; others drop them silently."""
    return any((kind, text) == ("name", "tools") for _, kind, text in Environment().lex(template))


class Reader:
    """Incremental parser of a choice. What it holds back depends on the text alone, not on how the text is split."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._held = ""
        self._may_think = reading.thinks is False  # the text may begin with reasoning
        self._is_inside = bool(reading.thinks)
        self._is_start = True  # nothing of the current part, reasoning or content, has been returned
        self._strips = self._is_inside  # whitespace before the content is dropped
        self.num_reasoning_tokens = 0

    def read(self, outputs: Iterable[Output], is_end: bool) -> ParsedOutput:
        """Return what can no longer change; if `is_end`, everything."""
        reasoning: list[str] = []
        for output in outputs:
            self._held += output.text or self._reading.marks.get(output.token_id, "")
            reasoning.append(self._reason(False))
            self.num_reasoning_tokens += self._is_inside
        reasoning.append(self._reason(is_end))
        content, calls = self._content(is_end)
        return ParsedOutput("".join(reasoning), content, calls)

    def _reason(self, is_end: bool) -> str:
        if self._may_think:
            begun = self._held.lstrip()
            if begun.startswith(THINK):
                self._held, self._is_inside, self._strips = begun.removeprefix(THINK), True, True
            if self._is_inside or is_end or not THINK.startswith(begun):
                self._may_think = False
        if not self._is_inside:
            return ""
        if self._is_start:
            self._held = self._held.lstrip()
        end = self._held.find(THOUGHT)
        until = len(self._held) if is_end else len(self._held) - overlap(self._held, THOUGHT)
        reasoning = self._held[: until if end < 0 else end].rstrip()
        self._held = self._held[len(reasoning) :]
        self._is_start = self._is_start and not reasoning
        if end >= 0 or is_end:
            self._held = self._held.lstrip().removeprefix(THOUGHT).lstrip()
            self._is_inside, self._is_start = False, True
        return reasoning

    def _content(self, is_end: bool) -> tuple[str, Calls]:
        if self._is_inside or self._may_think:
            return "", []
        if self._is_start and self._strips:
            self._held = self._held.lstrip()
        text, format = self._held, self._reading.format
        if format is None:
            self._held = ""
            content, calls = text, Calls()
        elif is_end:
            self._held = ""
            content, calls = format.split(text, self._is_start)
        else:
            at = format.held_from(text, self._is_start)
            content, self._held, calls = text[:at], text[at:], []
        self._is_start = self._is_start and not content
        return content, calls if self._reading.parallel else calls[:1]
