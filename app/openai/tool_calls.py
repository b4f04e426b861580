"""Parsing of tool calls in a model's text, in the format of its chat template. All other text remains content.

Hermes, Qwen    <tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>
                <tool_call><function=read><parameter=path>a.txt</parameter></function></tool_call>
Mistral         [TOOL_CALLS][{"name": "read", "arguments": {"path": "a.txt"}}]
                [TOOL_CALLS]read[CALL_ID]a1b2c3d4e[ARGS]{"path": "a.txt"}
Llama 3         {"name": "read", "parameters": {"path": "a.txt"}}, several calls separated by ;
"""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

OPENING, CLOSING = "<tool_call>", "</tool_call>"
BLOCK = re.compile(rf"{OPENING}(.*?)(?:{CLOSING}|\Z)", re.DOTALL)
FUNCTION = re.compile(r"\s*<function=([^>]+)>(.*?)(?:</function>\s*)?\Z", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([^>]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
TOOL_CALLS, CALL_ID, ARGS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
ID_SIGNS = string.ascii_letters + string.digits
PYTHON_TAG = "<|python_tag|>"
LLAMA_WORDS = '"parameters": dictionary of argument name and its value'  # in templates without PYTHON_TAG

Calls = list[dict[str, Any]]


class Format(NamedTuple):
    """Format of tool calls of a family of models."""

    opening: str  # text that begins a call; "": either the whole text is calls, or none of it
    calls: Callable[[str], Calls | None]  # parser of a text that begins with `opening`; None: it is no call
    marks: tuple[str, ...]  # delimiters that may be special tokens

    def possible_start(self, text: str, is_start: bool) -> int:
        """Return where a tool call, or the space before one, may begin in an unfinished text; its length if nowhere.

        `is_start`: no content precedes `text`.
        """
        if not self.opening:
            start = text.lstrip()
            may_call = start.startswith(("{", PYTHON_TAG)) or PYTHON_TAG.startswith(start)
            return 0 if is_start and may_call else len(text)
        at = text.find(self.opening)
        return len(text[: len(text) - overlap(text, self.opening) if at < 0 else at].rstrip())

    def split(self, text: str, is_start: bool) -> tuple[str, Calls]:
        """Return the text before the first tool call, and the calls in OpenAI's format. If one call cannot be parsed,
        return the whole text and no calls.
        """
        at = text.find(self.opening) if self.opening or is_start else -1
        calls = self.calls(text[at:]) if at >= 0 else None
        return (text[:at].rstrip(), calls) if calls else (text, [])


def overlap(text: str, mark: str) -> int:
    """Return the number of characters at the end of `text` that may be the beginning of `mark`."""
    longest = min(len(text), len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)


def format_of(template: str) -> Format | None:
    """Return the tool-call format of a chat template; None if it has none, or an unsupported one."""
    if TOOL_CALLS in template:
        return MISTRAL
    if OPENING in template:
        return HERMES
    return LLAMA if PYTHON_TAG in template or LLAMA_WORDS in template else None


def _hermes(text: str) -> Calls | None:
    found = []
    for block in BLOCK.findall(text):
        if (function := FUNCTION.match(block)) is not None:
            arguments = {key.strip(): value for key, value in PARAMETER.findall(function[2])}
            found.append(_call(function[1].strip(), arguments))
        else:
            found.append(_call_from_object(_json(block)))
    return _if_all_parsed(found)


def _mistral(text: str) -> Calls | None:
    found = []
    for block in text.split(TOOL_CALLS)[1:]:
        head, brace, rest = block.partition("{")
        if head.strip().startswith("[") or not head.strip():  # JSON
            decoded = _json(block)
            objects = decoded if isinstance(decoded, list) else [decoded]
            found += [_call_from_object(one, _short_id()) for one in objects]
        else:
            name, _, call_id = head.strip().removesuffix(ARGS).partition(CALL_ID)
            found.append(_call(name.strip(), _json(brace + rest), call_id.strip() or _short_id()))
    return _if_all_parsed(found)


def _llama(text: str) -> Calls | None:
    found = []
    left = text.strip().removeprefix(PYTHON_TAG).strip()
    while left:
        try:
            decoded, end = json.JSONDecoder().raw_decode(left)
        except (ValueError, RecursionError):
            return None
        found.append(_call_from_object(decoded))
        left = left[end:].lstrip(" \n;,")
    return _if_all_parsed(found)


HERMES = Format(OPENING, _hermes, (OPENING, CLOSING))
MISTRAL = Format(TOOL_CALLS, _mistral, (TOOL_CALLS, CALL_ID, ARGS))
LLAMA = Format("", _llama, (PYTHON_TAG,))


def _if_all_parsed(calls: list[dict[str, Any] | None]) -> Calls | None:
    parsed = [call for call in calls if call is not None]
    return parsed if len(parsed) == len(calls) else None


def _json(text: str) -> Any:
    """Decode JSON. Returns None for invalid text."""
    try:
        return msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, RecursionError):
        return None


def _call_from_object(decoded: Any, call_id: str | None = None) -> dict[str, Any] | None:
    """Return the call described by an object with a name and arguments, or None."""
    if not isinstance(decoded, dict) or not isinstance(decoded.get("name"), str):
        return None
    arguments = decoded.get("arguments", decoded.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = _json(arguments)
    return _call(decoded["name"], arguments, decoded.get("id") or call_id)


def _call(name: str, arguments: Any, call_id: Any = None) -> dict[str, Any] | None:
    """Return a call in OpenAI's format; None if its arguments are not an object."""
    if not isinstance(arguments, dict):
        return None
    return {
        "id": call_id if isinstance(call_id, str) else f"call_{secrets.token_hex(12)}",
        "type": "function",
        "function": {"name": name, "arguments": msgspec.json.encode(arguments).decode()},
    }


def _short_id() -> str:
    """Return an id of nine letters or digits, as Mistral's templates require."""
    return "".join(secrets.choice(ID_SIGNS) for _ in range(9))
