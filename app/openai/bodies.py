"""What clients may send: the fields of each body with their types, what is let pass unread, and what is refused.

Of the fields that are not implemented a value that changes nothing is taken; any other is refused by the field's name.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from app.openai.errors import ApiError
from engine.trace.limits import Int

T = TypeVar("T", bound=Struct)
Token = Annotated[int, Meta(ge=0, le=2**31)]
LogitBias = dict[str, float]
PATH = re.compile(r" - at `(?:key in )?\$\.?([^`\[]*)[^`]*`$")

# read by nobody, and nothing is lost by it: labels, billing, hints
HARMLESS = frozenset(
    (
        "user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
        "request_id", "verbosity", "spaces_between_special_tokens", "skip_special_tokens", "chat_template_kwargs",
        "mm_processor_kwargs", "return_token_ids",
    )
)  # fmt: skip
# not implemented: the values that ask for nothing
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "suffix": ("",),
    "tools": ([],),
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
}


class StreamOptions(Struct, kw_only=True, forbid_unknown_fields=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None  # padding against eavesdroppers: nothing is padded
    continuous_usage_stats: Literal[False] | None = None


class Sampled(Struct, kw_only=True):
    """What both kinds of request have."""

    model: str | None = None
    theater: str | None = None
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


class CompletionBody(Sampled, kw_only=True):
    """`POST /v1/completions`"""

    prompt: str | list[str | Token | list[Token]]
    best_of: Int | None = None
    echo: bool | None = None
    logprobs: Int | None = None


class Part(Struct, kw_only=True):
    type: str
    text: str | None = None


class ChatMessage(Struct, kw_only=True):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part]
    name: str | None = None


class ChatBody(Sampled, kw_only=True):
    """`POST /v1/chat/completions`"""

    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    max_completion_tokens: Int | None = None
    logprobs: bool | None = None
    top_logprobs: Int | None = None


class TokenizeBody(Struct, kw_only=True):
    """`POST /tokenize`: a text, or a conversation as the model will see it."""

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(Struct, kw_only=True):
    """`POST /detokenize`"""

    model: str | None = None
    tokens: list[Token]


def read(data: bytes, kind: type[T]) -> T:
    """A body of that kind.

    Raises:
        ApiError: no JSON, a field of another type, or one that asks for what there is not.
    """
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(f"the body is no JSON: {error}") from error
    except RecursionError:
        raise ApiError("the body is no JSON that this server reads: its lists lie too deep in each other") from None
    if not isinstance(found, dict):
        raise ApiError("the body must be a JSON object")
    known = kind.__struct_encode_fields__
    for name, value in found.items():
        if name not in known:
            _check_other(name, value)
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        if missing := re.search(r"missing required field `(\w+)`$", text):
            raise ApiError(f"{missing[1]} is missing", missing[1]) from error
        where = PATH.search(text)
        param = (where[1].split(".")[0] if where else "") or None
        said = PATH.sub("", text)
        place = text[text.rfind("`$") + 2 : -1].lstrip(".") if where else ""
        raise ApiError(f"{place or 'the body'}: {said[:1].lower()}{said[1:]}", param) from error


def _check_other(name: str, value: Any) -> None:
    if name in HARMLESS or value is None:
        return
    if name not in NEUTRAL:
        raise ApiError(f"this server knows no field {name[:80]!r}", name[:80])
    if value not in NEUTRAL[name]:
        raise ApiError(f"{name} is not implemented here; leave it out", name)
