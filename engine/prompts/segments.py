"""Divides a request into segments in rendering order: tools, system prompt, messages.

Supports the bodies of OpenAI's chat completions, completions and Responses, and of Anthropic's Messages. Texts that a
chat template adds between segments are not included.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

Kind = Literal["tool", "system", "message", "reasoning", "call", "result", "image", "template"]
Content = tuple[str, str, str, int]
PROMPTS = ("messages", "input", "prompt")  # possible fields of the prompt in a body
SYSTEM_ROLES = ("system", "developer")
TTL_SECONDS = {"5m": 300.0, "1h": 3600.0}  # `ttl` of a cache_control -> time to live in seconds
_MESSAGE = re.compile(r"^(?:messages|input)\[(\d+)\]")


class Segment(Struct, frozen=True):
    """Part of a prompt, with its path in the request's JSON.

    `ttl`: time to live in seconds, requested by a `cache_control`; None without one. `cut`: distinguishes equal texts
    with different tokens, which were truncated or tokenized in another context.
    """

    path: str
    kind: Kind
    role: str
    text: str
    ttl: float | None = None
    cut: int = 0

    @property
    def message(self) -> int | None:
        """Index of the message, or None for a tool or a system prompt outside the messages."""
        found = _MESSAGE.match(self.path)
        return int(found[1]) if found else None

    @property
    def content(self) -> Content:
        """Key that is equal for segments with equal tokens."""
        return self.kind, self.role, self.text, self.cut


def segments_of(body: Mapping[str, Any]) -> list[Segment]:
    """Divide a request body into segments. Raises ValueError: a part has an unknown shape."""
    found = [*_tools(body), *_system(body), *_messages(body)]
    if found and (ttl := _ttl(body)) is not None:  # a cache_control on the body applies to the last cacheable block
        found[-1] = msgspec.structs.replace(found[-1], ttl=ttl)
    return found


def as_text(value: Any) -> str:
    """Encode a value as JSON, with the keys in order and without spaces."""
    return msgspec.json.encode(value).decode()


def is_hashed(value: Any) -> bool:
    """Return whether a value is a text's hash and length, as in private lines of `kvtheater proxy`."""
    return isinstance(value, Mapping) and value.keys() == {"hash", "length"}


def _tools(body: Mapping[str, Any]) -> Iterator[Segment]:
    for index, tool in enumerate(_listed(body, "tools")):
        plain = {key: value for key, value in _mapping(tool, f"tools[{index}]").items() if key != "cache_control"}
        yield Segment(f"tools[{index}]", "tool", "", as_text(plain), _ttl(tool))


def _system(body: Mapping[str, Any]) -> Iterator[Segment]:
    for name in ("system", "instructions"):
        if body.get(name) is not None:
            yield from _content(body[name], name, "system", "system")


def _messages(body: Mapping[str, Any]) -> Iterator[Segment]:
    name = next((one for one in PROMPTS if one in body), "messages")
    prompt = body.get(name)
    if isinstance(prompt, str) or is_hashed(prompt):
        yield Segment(name, "message", "user", prompt if isinstance(prompt, str) else as_text(prompt))
        return
    for index, message in enumerate(_listed(body, name)):
        path = f"{name}[{index}]"
        yield from _message(_mapping(message, path), path)


def _message(message: Mapping[str, Any], path: str) -> Iterator[Segment]:
    match message.get("type"):
        case "function_call" | "custom_tool_call":
            yield Segment(path, "call", "assistant", as_text([message.get("name"), message.get("arguments")]))
            return
        case "function_call_output" | "custom_tool_call_output":
            yield from _content(message.get("output"), f"{path}.output", "result", "tool")
            return
        case "reasoning":
            text = as_text(message.get("content") or message.get("summary") or message.get("encrypted_content"))
            yield Segment(path, "reasoning", "assistant", text)
            return
    role = str(message.get("role", "user"))
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str):
            yield Segment(f"{path}.{name}", "reasoning", role, message[name])
    kind: Kind = "system" if role in SYSTEM_ROLES else "result" if role == "tool" else "message"
    yield from _content(message.get("content"), f"{path}.content", kind, role)
    for index, call in enumerate(_listed(message, "tool_calls")):
        function = _mapping(call, f"{path}.tool_calls[{index}]").get("function", call)
        yield Segment(f"{path}.tool_calls[{index}].function", "call", role, as_text(function))


def _content(content: Any, path: str, kind: Kind, role: str) -> Iterator[Segment]:
    """Yield the segments of a text or a list of blocks."""
    if content is None:
        return
    if isinstance(content, str) or is_hashed(content):
        yield Segment(path, kind, role, content if isinstance(content, str) else as_text(content))
        return
    if not isinstance(content, list):
        raise ValueError(f"{path} is neither a text nor a list of blocks")
    for index, block in enumerate(content):
        block_path = f"{path}[{index}]"
        if isinstance(block, str):
            yield Segment(block_path, kind, role, block)
        else:
            yield _block(_mapping(block, block_path), block_path, kind, role)


def _block(block: Mapping[str, Any], path: str, kind: Kind, role: str) -> Segment:
    ttl = _ttl(block)
    match block.get("type"):
        case "thinking" | "redacted_thinking":
            return Segment(path, "reasoning", role, str(block.get("thinking") or block.get("data") or ""), ttl)
        case "tool_use" | "server_tool_use":
            return Segment(path, "call", role, as_text([block.get("name"), block.get("input")]), ttl)
        case "tool_result":
            content = block.get("content")
            return Segment(path, "result", role, content if isinstance(content, str) else as_text(content), ttl)
    if isinstance(text := block.get("text"), str) or is_hashed(text):
        return Segment(f"{path}.text", kind, role, text if isinstance(text, str) else as_text(text), ttl)
    plain = as_text({key: value for key, value in block.items() if key != "cache_control"})
    digest = hashlib.sha256(plain.encode()).hexdigest()
    return Segment(path, "image", role, f"{block.get('type', '')} {digest}", ttl)  # or another kind of media


def _ttl(part: Mapping[str, Any]) -> float | None:
    control = part.get("cache_control")
    return TTL_SECONDS.get(str(control.get("ttl", "5m")), 300.0) if isinstance(control, Mapping) else None


def _listed(part: Mapping[str, Any], name: str) -> list[Any]:
    found = part.get(name) or []
    if not isinstance(found, list):
        raise ValueError(f"{name} is not a list")
    return found


def _mapping(part: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(part, Mapping):
        raise ValueError(f"{path} is not an object")
    return part
