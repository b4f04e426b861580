"""Tool calls in a model's text, in the format that its chat template names; everything else stays text.

Hermes, Qwen    <tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>
                <tool_call><function=read><parameter=path>a.txt</parameter></function></tool_call>
Mistral         [TOOL_CALLS][{"name": "read", "arguments": {"path": "a.txt"}}]
                [TOOL_CALLS]read[CALL_ID]a1b2c3d4e[ARGS]{"path": "a.txt"}
Llama 3         {"name": "read", "parameters": {"path": "a.txt"}}, several with ; between them
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
LLAMA_WORDS = '"parameters": dictionary of argument name and its value'  # of its templates, which have no mark

Calls = list[dict[str, Any]]


class Format(NamedTuple):
    """Format of tool calls of a family of models."""

    opening: str  # begins a call, wherever it stands; "": only a whole text can be calls
    calls: Callable[[str], Calls | None]  # of a text from the opening on; None: it is something else
    marks: tuple[str, ...]  # which may be special tokens

    def held_from(self, text: str, is_start: bool) -> int:
        """Return where the part of an unfinished text begins that may become a tool call, or the space before one.

        `is_start`: nothing comes before `text`.
        """
        if not self.opening:
            begun = text.lstrip()
            may_call = begun.startswith(("{", PYTHON_TAG)) or PYTHON_TAG.startswith(begun)
            return 0 if is_start and may_call else len(text)
        at = text.find(self.opening)
        return len(text[: len(text) - overlap(text, self.opening) if at < 0 else at].rstrip())

    def split(self, text: str, is_start: bool) -> tuple[str, Calls]:
        """Return the text before the first tool call, and the calls in OpenAI's shape; the whole text and no calls if
        one of them cannot be parsed.
        """
        at = text.find(self.opening) if self.opening or is_start else -1
        calls = self.calls(text[at:]) if at >= 0 else None
        return (text[:at].rstrip(), calls) if calls else (text, [])


def overlap(text: str, mark: str) -> int:
    """Return the number of characters at the end of `text` that may be the beginning of `mark`."""
    longest = min(len(text), len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)


def format_of(template: str) -> Format | None:
    """Return the format named in a chat template; None if it is not supported."""
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
            found.append(_of_object(_json(block)))
    return _all(found)


def _mistral(text: str) -> Calls | None:
    found = []
    for block in text.split(TOOL_CALLS)[1:]:
        head, brace, rest = block.partition("{")
        if head.strip().startswith("[") or not head.strip():  # JSON
            decoded = _json(block)
            found += [_of_object(one, _short_id()) for one in (decoded if isinstance(decoded, list) else [decoded])]
        else:
            name, _, call_id = head.strip().removesuffix(ARGS).partition(CALL_ID)
            found.append(_call(name.strip(), _json(brace + rest), call_id.strip() or _short_id()))
    return _all(found)


def _llama(text: str) -> Calls | None:
    found = []
    left = text.strip().removeprefix(PYTHON_TAG).strip()
    while left:
        try:
            decoded, end = json.JSONDecoder().raw_decode(left)
        except (ValueError, RecursionError):
            return None
        found.append(_of_object(decoded))
        left = left[end:].lstrip(" \n;,")
    return _all(found)


HERMES = Format(OPENING, _hermes, (OPENING, CLOSING))
MISTRAL = Format(TOOL_CALLS, _mistral, (TOOL_CALLS, CALL_ID, ARGS))
LLAMA = Format("", _llama, (PYTHON_TAG,))


def _all(calls: list[dict[str, Any] | None]) -> Calls | None:
    read = [call for call in calls if call is not None]
    return read if len(read) == len(calls) else None


def _json(text: str) -> Any:
    """Decode JSON; return None for invalid text."""
    try:
        return msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, RecursionError):
        return None


def _of_object(decoded: Any, call_id: str | None = None) -> dict[str, Any] | None:
    """Return the call described by an object with a name and arguments, or None."""
    if not isinstance(decoded, dict) or not isinstance(decoded.get("name"), str):
        return None
    given = decoded.get("arguments", decoded.get("parameters", {}))
    return _call(decoded["name"], _json(given) if isinstance(given, str) else given, decoded.get("id") or call_id)


def _call(name: str, arguments: Any, call_id: Any = None) -> dict[str, Any] | None:
    """Return a call in OpenAI's shape; None if its arguments are not an object."""
    if not isinstance(arguments, dict):
        return None
    return {
        "id": call_id if isinstance(call_id, str) else f"call_{secrets.token_hex(12)}",
        "type": "function",
        "function": {"name": name, "arguments": msgspec.json.encode(arguments).decode()},
    }


def _short_id() -> str:
    """Return an id as Mistral's templates require: nine letters or digits."""
    return "".join(secrets.choice(ID_SIGNS) for _ in range(9))
