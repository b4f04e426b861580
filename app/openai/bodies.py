"""Request bodies of the API: the typed fields of each body, ignored fields, and rejected fields.

A field that is not implemented is accepted if its value would have no effect. Any other value is rejected.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field, inspect

from app.openai.errors import ApiError
from engine.trace.limits import Int

T = TypeVar("T", bound="Body")
Token = Annotated[int, Meta(ge=0, le=2**31)]
LogitBias = dict[str, float]
# additional variables of a model's chat template, such as enable_thinking
TemplateSettings = Annotated[
    dict[str, bool | int | float | Annotated[str, Meta(max_length=1000)] | None], Meta(max_length=32)
]
MAX_VALUES, MAX_LISTS = 1 << 20, 1 << 16  # of a body, of which one byte may decode to 100 bytes of memory
PATH = re.compile(r" - at `(?:key in )?\$\.?([^`\[]*)[^`]*`$")

# ignored fields, which do not affect the response: labels, billing, hints
HARMLESS = frozenset(
    (
        "user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
        "request_id", "verbosity",
    )
)  # fmt: skip
# fields that are not implemented, with the values that have no effect
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "suffix": ("",),
    "tools": ([],),  # chat bodies implement them
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "reasoning_effort": ("none",),
    "use_beam_search": (False,),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "add_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
    "truncate_prompt_tokens": (-1,),
    "length_penalty": (1,),
    "return_token_ids": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True, False),  # texts have no special tokens
    "mm_processor_kwargs": ({},),
}
# the same for messages and their content parts
HARMLESS_OF_MESSAGE = frozenset({"name"})
NEUTRAL_OF_MESSAGE: dict[str, tuple[Any, ...]] = {
    "refusal": ("",),
    "annotations": ([],),
    "reasoning": ("",),
}
HARMLESS_OF_PART = frozenset({"cache_control"})  # marks a cacheable prefix; this server caches every prefix


class StreamOptions(Struct, kw_only=True, forbid_unknown_fields=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None  # padding against eavesdroppers; ignored
    continuous_usage_stats: bool | None = None  # vLLM's: each chunk has the usage so far; needs include_usage


class Body(Struct, kw_only=True):
    """Base of all request bodies. `harmless` and `neutral` are accepted in addition to the struct's fields."""

    harmless: ClassVar[frozenset[str]] = HARMLESS
    neutral: ClassVar[dict[str, tuple[Any, ...]]] = NEUTRAL

    model: str | None = None


class SamplingBody(Body, kw_only=True):
    """Fields that text and chat completions share."""

    session: str | None = field(name="theater", default=None)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: Int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    n: Int | None = None
    seed: Int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[Token] | None = None
    ignore_eos: bool | None = None
    min_tokens: Int | None = None
    logit_bias: LogitBias | None = None
    prompt_logprobs: Int | None = None
    priority: Int | None = None
    cache_salt: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class CompletionBody(SamplingBody, kw_only=True):
    """`POST /v1/completions`"""

    prompt: str | list[str | Token | list[Token]]
    best_of: Int | None = None
    echo: bool | None = None
    logprobs: Int | None = None


class ContentPart(Struct, kw_only=True):
    type: str
    text: str | None = None


class CalledFunction(Struct, kw_only=True):
    name: str
    arguments: str | dict[str, Any] = ""  # JSON


class ToolCall(Struct, kw_only=True):
    function: CalledFunction
    id: str | None = None
    type: Literal["function"] = "function"


class ChatMessage(Struct, kw_only=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None


class Tool(Struct, kw_only=True):
    function: dict[str, Any]
    type: Literal["function"] = "function"


class ChatBody(SamplingBody, kw_only=True):
    """`POST /v1/chat/completions`"""

    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Annotated[str, Meta(max_length=40)] | None = None
    chat_template_kwargs: TemplateSettings | None = None
    max_completion_tokens: Int | None = None
    logprobs: bool | None = None
    top_logprobs: Int | None = None


class TokenizeBody(Body, kw_only=True):
    """`POST /tokenize`: a text, or a conversation that the chat template renders."""

    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    tools: list[Tool] | None = None
    chat_template_kwargs: TemplateSettings | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(Body, kw_only=True):
    """`POST /detokenize`"""

    tokens: list[Token]


def read(data: bytes, kind: type[T]) -> T:
    """Decode a body of type `kind`.

    Raises:
        ApiError: the body is not JSON, or a field has an invalid type or a value that is not implemented.
    """
    if data.count(b",") > MAX_VALUES or data.count(b"[") + data.count(b"{") > MAX_LISTS:
        raise ApiError(f"the body may have at most {MAX_VALUES} values in {MAX_LISTS} lists and objects")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(f"the body is not JSON: {PATH.sub('', str(error))}") from error
    except RecursionError:
        raise ApiError("the body is nested too deeply") from None
    if not isinstance(found, dict):
        raise ApiError("the body must be a JSON object")
    _check_others(found, kind, kind.harmless, kind.neutral)
    if kind in (ChatBody, TokenizeBody):
        _check_messages(found.get("messages"))
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        if missing := re.search(r"missing required field `(\w+)`$", text):
            raise ApiError(f"{missing[1]} is missing", missing[1]) from error
        where = PATH.search(text)
        param = (where[1].split(".")[0] if where else "") or None
        message = PATH.sub("", text)
        place = text[text.rfind("`$") + 2 : -1].lstrip(".") if where else ""
        accepted = _accepted(kind, place) if message.startswith("Invalid enum value") else ""
        raise ApiError(f"{place or 'the body'}: {message[:1].lower()}{message[1:]}{accepted}", param) from error


def _accepted(kind: type[Struct], place: str) -> str:
    """Return a suffix with the values that a body of type `kind` may have at a place such as `messages[0].role`."""
    types = [inspect.type_info(kind)]
    for step in re.findall(r"\w*[A-Za-z_]\w*|\[", place):
        inner: list[inspect.Type] = []
        for one in types:
            if isinstance(one, inspect.StructType):
                inner += [field.type for field in one.fields if field.encode_name == step]
            elif isinstance(one, inspect.ListType) and step == "[":
                inner.append(one.item_type)
        types = [part for one in inner for part in (one.types if isinstance(one, inspect.UnionType) else [one])]
    values = [repr(value) for one in types if isinstance(one, inspect.LiteralType) for value in one.values]
    return f"; accepted: {', '.join(values)}" if values else ""


def _check_messages(messages: Any) -> None:
    """Check the unread fields of messages and content parts. `read` checks the types of the other fields later."""
    for at, message in enumerate(messages if isinstance(messages, list) else ()):
        if not isinstance(message, dict):
            continue
        where = f"messages[{at}]"
        _check_others(message, ChatMessage, HARMLESS_OF_MESSAGE, NEUTRAL_OF_MESSAGE, where)
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict) and part.get("type") == "text":  # any other type is rejected later
                _check_others(part, ContentPart, HARMLESS_OF_PART, {}, f"{where}.content[{place}]")


def _check_others(
    found: dict[str, Any],
    kind: type[Struct],
    harmless: frozenset[str],
    neutral: dict[str, tuple[Any, ...]],
    where: str = "",
) -> None:
    """Check the fields of `found` that `kind` does not have. `where`: its place in the body, for errors."""
    known = kind.__struct_encode_fields__
    for name, value in found.items():
        if name in known or name in harmless or value is None:
            continue
        param = where.partition("[")[0] or name[:80]
        if name not in neutral:
            place = f" in {where}" if where else ""
            raise ApiError(f"unknown field {name[:80]!r}{place}", param)
        if not any(_is_same(value, one) for one in neutral[name]):
            place = f"{where}.{name}" if where else name
            raise ApiError(f"{place} is not implemented by this server; omit it", param)


def _is_same(value: Any, neutral: Any) -> bool:
    """Return whether the values are equal; a bool never equals a number."""
    return bool(value == neutral) and isinstance(value, bool) == isinstance(neutral, bool)
