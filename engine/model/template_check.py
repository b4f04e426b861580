"""Check that a chat template only appends to earlier renderings, as a prefix cache requires.

    prompt k      the conversation up to the model's k-th answer
    cached k      prompt k and the model's answer: the text in a prefix cache after it
    append-only   cached k is a prefix of prompt k + 1, for every k

The generated text is the answer's content. With reasoning or tool calls it is the text that the template renders for
the answer as the last message. A conversation breaks where the two texts first differ; the cached tokens from there on
are recomputed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import jinja2
import jinja2.meta
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

from engine.model.gguf_file import is_gguf
from engine.model.resumed_template import Rendering, rendering_of
from engine.model.shipped import SHIPPED
from engine.model.text_cuts import TextCuts, Tokens, cuts_of, tokens_of
from engine.model.weight_files import check_weight_file

Message = dict[str, Any]
CONTEXT = 24  # characters shown on either side of a break
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}  # for a template file without a tokenizer
OTHER_DATE = "{%- macro strftime_now(form) -%}2 January 2001{%- endmacro -%}"  # replaces the current date
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
    for name, description in (("read_file", "Read a file."), ("list_files", "List a folder's files."))
]
# variables that transformers and servers pass to every template
STANDARD_VARIABLES = {
    "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token", "pad_token", "unk_token"
}  # fmt: skip
GENERATION_TAG = re.compile(r"{%-?\s*(end)?generation\s*-?%}")  # transformers' markers of answers, which render nothing


class NoChatTemplateError(ValueError):
    """The tokenizer has no chat template."""


@dataclass(frozen=True)
class ChatTemplate:
    """Jinja chat template, rendered as a server does."""

    source: str
    encode: Callable[[str], Sequence[int]]  # adds no special tokens
    tokenize: Callable[[str], Tokens]  # also returns the start of each token
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    cuts: TextCuts = field(default_factory=TextCuts)

    def render(self, messages: list[Message], **settings: Any) -> str:
        """Return the text of a conversation.

        Raises:
            ValueError: the template refuses it; the message is one sentence.
        """
        return self._rendered(messages, {**self.special_tokens, **settings})

    def rendering(self, messages: list[Message], settings: Mapping[str, Any], earlier: Rendering | None) -> Rendering:
        """Return the rendering of a conversation; text is reused from `earlier` up to the first difference.

        Raises:
            ValueError: the template refuses it; the message is one sentence.
        """
        return rendering_of(self.source, self._rendered, messages, {**self.special_tokens, **settings}, earlier)

    def _rendered(self, messages: Sequence[Message], settings: Mapping[str, Any]) -> str:
        try:
            found = render_jinja_template(conversations=[list(messages)], chat_template=self.source, **settings)
        except Exception as error:  # a template may raise anything
            raise ValueError(" ".join(str(error).split())[:200] or type(error).__name__) from error
        text: str = found[0][0]
        return text

    def generated(
        self, messages: list[Message], answer: Message, prompt: Rendering, settings: Mapping[str, Any]
    ) -> str:
        """Return the text that the model generates after `prompt` for an answer."""
        if answer.get("reasoning_content") or answer.get("tool_calls"):
            text = self.rendering([*messages, answer], {**settings, "add_generation_prompt": False}, prompt).text
            if text.startswith(prompt.text):
                return text[len(prompt.text) :]
        return str(answer["content"])

    def switches(self) -> list[str]:
        """Return the variables that the template reads besides the standard ones."""
        environment = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"])
        tree = environment.parse(GENERATION_TAG.sub("", self.source))
        known = STANDARD_VARIABLES | {"strftime_now", "raise_exception"}
        return sorted(jinja2.meta.find_undeclared_variables(tree) - known)


@dataclass(frozen=True)
class Case:
    """Kind of conversation, with variables for the template."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    ends_another_day: bool = False  # all turns after the first one are on another day
    has_system: bool = True
    has_tools: bool = False
    has_parts: bool = False
    num_questions: int = 1  # number of consecutive user messages
    has_reasoning: bool = False
    drops_reasoning: bool = False  # the client omits it from earlier answers
    spaces: str = ""  # whitespace around each answer


@dataclass(frozen=True)
class Break:
    """First difference between the cached text and the next prompt."""

    turn: int  # number of the cached answer, from 1
    turns_back: int  # turns between the difference and that answer; 0: the same turn
    character: int
    token: int
    cached: str  # text around the difference, which is marked by "|"
    rendered: str


@dataclass(frozen=True)
class Outcome:
    """Result of a case."""

    case: str
    verdict: Literal["append-only", "breaks", "refused"]
    reason: str = ""  # the template's error message if it refused
    first: Break | None = None
    num_breaks: int = 0
    tokens_again: int = 0  # cached tokens of the conversation that are recomputed
    tokens: int = 0  # tokens of all prompts of the conversation
    avoided_by: str = ""  # variable of the template, and the value that makes the case append-only
    by_client: bool = False  # the client changes earlier messages


def open_template(name: str) -> ChatTemplate:
    """Open the template and tokenizer of a model, or a Jinja file with the bundled model's tokenizer.

    Raises:
        NoChatTemplateError: the tokenizer has no chat template.
        OSError, ValueError: the template cannot be read; the message is one sentence.
    """
    path = Path(name)
    is_gguf_file = is_gguf(name)
    is_file = path.is_file() and not is_gguf_file
    source = path.read_text(encoding="utf-8") if is_file else ""
    if is_gguf_file:
        check_weight_file(path, name)
        tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    else:
        shipped = SHIPPED.get("bundled" if is_file else name)
        tokenizer = AutoTokenizer.from_pretrained(name if shipped is None else str(shipped.tokenizer_folder))
    if not is_file:
        if not tokenizer.chat_template:
            raise NoChatTemplateError("the tokenizer has no chat template")
        source = tokenizer.get_chat_template()
    special = SPECIAL_TOKENS if is_file else {k: str(v) for k, v in tokenizer.special_tokens_map.items()}
    template = ChatTemplate(
        source,
        lambda text: tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"],
        _tokenize_of(tokenizer),
        special,
        cuts_of(tokenizer.backend_tokenizer) if tokenizer.is_fast else TextCuts(),
    )
    try:
        template.switches()
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.message}") from error
    return template


def _tokenize_of(tokenizer: Any) -> Callable[[str], Tokens]:
    """Return a function that tokenizes a text without adding special tokens and returns the start of each token."""
    if not tokenizer.is_fast:
        return _no_offsets
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.post_processor = None  # it adds special tokens, and may shift the starts of tokens
    return lambda text: tokens_of(backend.encode(text, add_special_tokens=False))


def _no_offsets(text: str) -> Tokens:
    raise NotImplementedError("the tokenizer is not a fast one, which would report the starts of tokens")


def check_template(template: ChatTemplate, num_turns: int = 4) -> list[Outcome]:
    """Check every case that the template supports, as a conversation of `num_turns` turns."""
    return [_outcome(template, case, num_turns) for case in cases_of(template)]


def common_length(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the length of the common prefix."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def conversation(case: Case, num_turns: int) -> Iterator[tuple[list[Message], Message]]:
    """Yield the messages before each answer of the model, and the answer."""
    chat: list[Message] = [{"role": "system", "content": "You answer in one sentence."}] if case.has_system else []
    for turn in range(1, num_turns + 1):
        for part in range(case.num_questions):
            text = f"Question {turn}.{part + 1}: what does line {7 * turn} of the file say, and why is it there?"
            parts = [{"type": "text", "text": text}, {"type": "text", "text": "Be brief."}]
            chat.append({"role": "user", "content": parts if case.has_parts else text})
        answers: list[Message] = [{"role": "assistant", "content": f"It says {turn}, for it counts the lines."}]
        if case.has_tools:
            function = {"name": "read_file", "arguments": {"path": f"{turn}.txt"}}
            call = {"id": f"call{turn:05}", "type": "function", "function": function}
            answers.insert(0, {"role": "assistant", "content": "", "tool_calls": [call]})
        for answer in answers:
            if case.has_reasoning:
                answer["reasoning_content"] = f"The file was read. Line {7 * turn} counts."
            if not answer.get("tool_calls"):
                answer["content"] = case.spaces + answer["content"] + case.spaces
            yield list(chat), answer
            chat.append({k: v for k, v in answer.items() if not (case.drops_reasoning and k == "reasoning_content")})
            for call in answer.get("tool_calls", ()):
                result = {"role": "tool", "tool_call_id": call["id"], "name": "read_file", "content": f"{turn}\n" * 3}
                chat.append(result)


def cases_of(template: ChatTemplate) -> Iterator[Case]:
    """Yield the kinds of conversation that a template supports."""
    yield Case("a system message")
    yield Case("no system message", has_system=False)
    yield Case("questions of several parts", has_parts=True)
    yield Case("two questions in a row", num_questions=2)
    yield Case("an answer between spaces", spaces="\n ")
    if "tools" in template.source:
        yield Case("tools", settings={"tools": TOOLS}, has_tools=True)
    if "strftime_now" in template.source:
        yield Case("another day", ends_another_day=True)
    if "think" in template.source:
        switch = {"enable_thinking": True} if "enable_thinking" in template.source else {}
        yield Case("reasoning", settings=switch, has_reasoning=True)
        if switch:
            yield Case("reasoning switched off", settings={"enable_thinking": False})
        if "tools" in template.source:
            yield Case("reasoning and tools", settings={**switch, "tools": TOOLS}, has_tools=True, has_reasoning=True)
        yield Case("reasoning that the client drops", settings=switch, has_reasoning=True, drops_reasoning=True)


def _outcome(template: ChatTemplate, case: Case, num_turns: int) -> Outcome:
    found = _check_case(template, case, num_turns)
    if found.verdict != "breaks" or case.drops_reasoning:
        return found
    for name in template.switches():
        for value in (True, False):
            if name in case.settings:
                continue
            other = _check_case(template, replace(case, settings={**case.settings, name: value}), num_turns)
            if other.verdict == "append-only":
                return replace(found, avoided_by=f"{name}={str(value).lower()}")
    return found


def turns(template: ChatTemplate, case: Case, num_turns: int) -> Iterator[tuple[str, str]]:
    """Yield the cached text and the prompt of each answer; the first cached text is "".

    Raises:
        ValueError: the template refuses the conversation.
    """
    cached = ""
    for messages, answer in conversation(case, num_turns):
        prompt = template.render(messages, add_generation_prompt=True, **case.settings)
        yield cached, prompt
        cached = prompt + template.generated(messages, answer, Rendering(prompt), case.settings)
        if case.ends_another_day:
            template = replace(template, source=OTHER_DATE + template.source.removeprefix(OTHER_DATE))


def _check_case(template: ChatTemplate, case: Case, num_turns: int) -> Outcome:
    breaks: list[Break] = []
    ends, again, total = list[int](), 0, 0  # end of each turn; recomputed tokens; prompt tokens
    try:
        for cached, prompt in turns(template, case, num_turns):
            ends.append(len(cached))
            tokens = template.encode(prompt)
            total += len(tokens)
            if not prompt.startswith(cached.rstrip()):  # trailing whitespace is not generated
                cached_tokens = template.encode(cached)
                token = common_length(cached_tokens, tokens)
                again += len(cached_tokens) - token
                breaks.append(_break_of(cached, prompt, ends, token))
    except ValueError as error:
        return Outcome(case.name, "refused", str(error))
    if not breaks:
        return Outcome(case.name, "append-only", tokens=total)
    return Outcome(case.name, "breaks", "", breaks[0], len(breaks), again, total, by_client=case.drops_reasoning)


def _break_of(cached: str, prompt: str, ends: list[int], token: int) -> Break:
    at = common_length(cached, prompt)
    excerpts = [f"{text[max(0, at - CONTEXT) : at]}|{text[at : at + CONTEXT]}" for text in (cached, prompt)]
    turn = len(ends) - 1
    return Break(turn, turn - next(i for i, end in enumerate(ends) if at < end), at, token, *excerpts)
