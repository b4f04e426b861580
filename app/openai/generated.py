"""Incremental parser of reasoning, content and tool calls in generated text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from jinja2 import Environment

from app.models.engine_face import ServedModel
from app.openai.tool_calls import Calls, Format, format_of, overlap
from engine.trace.records import Output

THINK, THOUGHT = "<think>", "</think>"
TAIL = 8  # tokens at the end of a prompt that are searched for THINK


class ParserSettings(NamedTuple):
    """Parser settings for the generated text of a request."""

    format: Format | None = None  # format of tool calls; None: do not parse them
    thinks: bool | None = None  # whether the text begins within reasoning; None: it has no reasoning
    parallel: bool = True  # False: return only the first of several tool calls
    marks: Mapping[int, str] = {}  # token id -> text, of special tokens that delimit parts; an output's text lacks them


class ParsedOutput(NamedTuple):
    """Parsed parts of a piece of text."""

    reasoning: str
    content: str
    calls: Calls


def parser_settings(
    model: ServedModel, prompt: Sequence[int], has_tools: bool, parallel: bool
) -> ParserSettings | None:
    """Return the parser settings for the model's chat template; None if there is nothing to parse."""
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
    return ParserSettings(format, thinks, parallel, {special[text]: text for text in texts if text in special})


@lru_cache(16)
def uses_tools(template: str) -> bool:
    """Return whether a chat template reads the variable `tools`. Other templates ignore tools silently."""
    return any((kind, text) == ("name", "tools") for _, kind, text in Environment().lex(template))


class OutputParser:
    """Incremental parser of a choice. The text that it holds back does not depend on how the text is split."""

    def __init__(self, settings: ParserSettings) -> None:
        self._settings = settings
        self._held = ""  # text that is not returned yet
        self._may_think = settings.thinks is False  # the text may begin with reasoning
        self._is_inside = bool(settings.thinks)  # whether the text is within reasoning
        self._is_start = True  # nothing of the current part, reasoning or content, has been returned
        self._strips = self._is_inside  # whether whitespace before the content is dropped
        self.num_reasoning_tokens = 0

    def read(self, outputs: Iterable[Output], is_end: bool) -> ParsedOutput:
        """Parse further outputs. Returns the text whose parsing can no longer change; all text if `is_end`."""
        reasoning: list[str] = []
        for output in outputs:
            self._held += output.text or self._settings.marks.get(output.token_id, "")
            reasoning.append(self._read_reasoning(False))
            self.num_reasoning_tokens += self._is_inside
        reasoning.append(self._read_reasoning(is_end))
        content, calls = self._read_content(is_end)
        return ParsedOutput("".join(reasoning), content, calls)

    def _read_reasoning(self, is_end: bool) -> str:
        if self._may_think:
            start = self._held.lstrip()
            if start.startswith(THINK):
                self._held, self._is_inside, self._strips = start.removeprefix(THINK), True, True
            if self._is_inside or is_end or not THINK.startswith(start):
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

    def _read_content(self, is_end: bool) -> tuple[str, Calls]:
        if self._is_inside or self._may_think:
            return "", []
        if self._is_start and self._strips:
            self._held = self._held.lstrip()
        text, format = self._held, self._settings.format
        if format is None:
            self._held = ""
            content, calls = text, Calls()
        elif is_end:
            self._held = ""
            content, calls = format.split(text, self._is_start)
        else:
            at = format.possible_start(text, self._is_start)
            content, self._held, calls = text[:at], text[at:], []
        self._is_start = self._is_start and not content
        return content, calls if self._settings.parallel else calls[:1]
