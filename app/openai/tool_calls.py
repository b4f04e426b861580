"""Tool calls in a model's text, as the Hermes and Qwen families write them; everything else stays text.

<tool_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</tool_call>
<tool_call><function=read_file><parameter=path>a.txt</parameter></function></tool_call>
"""

from __future__ import annotations

import re
import secrets
from typing import Any

import msgspec

OPENING, CLOSING = "<tool_call>", "</tool_call>"
BLOCK = re.compile(rf"{OPENING}(.*?)(?:{CLOSING}|\Z)", re.DOTALL)
FUNCTION = re.compile(r"\s*<function=([^>]+)>(.*?)(?:</function>\s*)?\Z", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([^>]+)>\n?(.*?)\n?</parameter>", re.DOTALL)


def held_from(text: str) -> int:
    """Return where the part of an unfinished text begins that may become a tool call, or the space before one."""
    at = text.find(OPENING)
    if at < 0:
        longest = min(len(text), len(OPENING) - 1)
        at = next((len(text) - n for n in range(longest, 0, -1) if OPENING.startswith(text[-n:])), len(text))
    return len(text[:at].rstrip())


def split(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the text before the first tool call and the calls in OpenAI's shape; all of it and none where one of them
    cannot be read.
    """
    blocks = BLOCK.findall(text)
    calls = [call for block in blocks if (call := _call(block)) is not None]
    if not calls or len(calls) < len(blocks):
        return text, []
    return text[: text.index(OPENING)].rstrip(), calls


def _call(block: str) -> dict[str, Any] | None:
    if (found := FUNCTION.match(block)) is not None:
        name = found[1].strip()
        arguments = msgspec.json.encode({key.strip(): value for key, value in PARAMETER.findall(found[2])}).decode()
    else:
        try:
            told = msgspec.json.decode(block.strip())
        except (msgspec.DecodeError, RecursionError):
            return None
        if not isinstance(told, dict) or not isinstance(told.get("name"), str):
            return None
        name, given = told["name"], told.get("arguments", told.get("parameters", {}))
        try:
            given = msgspec.json.decode(given) if isinstance(given, str) else given
        except (msgspec.DecodeError, RecursionError):
            return None
        if not isinstance(given, dict):
            return None
        arguments = msgspec.json.encode(given).decode()
    return {
        "id": f"call_{secrets.token_hex(12)}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
