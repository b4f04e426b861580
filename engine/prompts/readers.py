"""Readers of files of requests to language models, one per shape of entry.

A file is JSON or JSON lines. The first matching shape in `SHAPES` reads an entry. Entries without a matching shape are
counted and reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
from msgspec import Struct

from engine.prompts.segments import PROMPTS, Segment, is_hashed, segments_of

MAX_LINE_BYTES = 1 << 26
MAX_COUNT = 1 << 53  # tokens; exact in every JSON reader
# exceptions raised by entries that match a shape but are malformed
FAULTS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)


class PromptError(ValueError):
    """The file cannot be read. The message is one sentence."""


class Sent(NamedTuple):
    """Request of an entry, with its metadata."""

    body: Mapping[str, Any]
    time: float | None = None  # seconds since the epoch
    session: str = ""
    usage: Mapping[str, Any] = {}
    instance: str = ""  # name, address or region of the instance that answered


class Keyspace(NamedTuple):
    """Key of a cache. Requests with different keyspaces share no cached tokens. A field is "" if unknown."""

    model: str
    adapter: str = ""
    cache_salt: str = ""
    instance: str = ""


class Rendered(Struct, frozen=True):
    """Prompt rendered by a chat template, divided into segments, with the tokens of each.

    `of`: for each segment the index of the request's segment; for template text, of the next one.
    """

    segments: list[Segment]
    tokens: list[Sequence[int]]
    of: MutableSequence[int]


class PromptRequest(Struct, frozen=True):
    """Request with its segments and reported usage. `line`: 1-based line, or entry if the file is one document."""

    line: int
    model: str
    segments: list[Segment]
    time: float | None = None
    session: str = ""
    reported_tokens: int | None = None  # prompt tokens
    reported_cached: int | None = None  # prompt tokens read from the cache
    retention: str = ""  # `prompt_cache_retention`
    reported_output: int | None = None  # tokens of the answer, including reasoning
    reported_reasoning: int | None = None  # output tokens of reasoning
    answer: list[Segment] = []  # see `engine/prompts/answers.py`
    followed_by: int | None = None  # index of the request that contains the answer
    body: Mapping[str, Any] = {}
    rendered: Rendered | None = None  # see `engine/prompts/rendering.py`
    held: Rendered | None = None  # `rendered`, extended by the computed part of the answer
    adapter: str = ""
    cache_salt: str = ""
    instance: str = ""  # instance that answered

    @property
    def keyspace(self) -> Keyspace:
        return Keyspace(self.model, self.adapter, self.cache_salt, self.instance)


class PromptFile(NamedTuple):
    """Requests of a file in order. `shapes`, `unread`: number of entries by shape, or by error."""

    requests: list[PromptRequest]
    shapes: Counter[str]
    unread: Counter[str]

    @property
    def is_private(self) -> bool:
        """Whether any request has hashes and lengths instead of texts."""
        return PRIVATE in self.shapes


def read_prompts(path: Path, keep_bodies: bool = False) -> PromptFile:
    """Read the requests of a file. `keep_bodies`: keep their bodies, for a chat template.

    Raises:
        PromptError: the file cannot be read or has no requests.
    """
    found = PromptFile([], Counter(), Counter())
    same: dict[Any, Any] = {}  # interned segments and, by their JSON, parts of bodies, because requests repeat them
    try:
        for line, entry in _entries(path, found.unread):
            _read(line, entry, found, same, keep_bodies)
    except OSError as error:
        raise PromptError(f"cannot read {path}: {error.strerror or error}") from error
    if not found.requests:
        why = "; ".join(f"{count} × {fault}" for fault, count in found.unread.most_common(3))
        raise PromptError("the file has no request to a language model" + (f": {why}" if why else ""))
    return found


def _read(line: int, entry: Any, found: PromptFile, same: dict[Any, Any], keep_body: bool) -> None:
    for name, of in SHAPES.items():
        try:
            sent = of(entry) if isinstance(entry, dict) else None
            if sent is None:
                continue
            segments = [same.setdefault(segment, segment) for segment in segments_of(sent.body)]
            tokens, cached = reported(sent.usage)
            output, reasoning = reported_answer(sent.usage)
            adapter = next((_key(sent.body[name]) for name in ADAPTERS if sent.body.get(name)), "")
            geo = sent.usage.get("inference_geo")  # Anthropic's
            instance = sent.instance or (str(geo) if geo and geo not in NO_PLACE else "")
            body = _interned(sent.body, same) if keep_body else {}
        except FAULTS as error:
            found.unread[f"{name}: {' '.join(str(error).split())[:100] or type(error).__name__}"] += 1
            return
        if not segments:
            found.unread[f"{name}: a request without a prompt"] += 1
            return
        session = sent.session or str(sent.body.get("prompt_cache_key") or "")
        retention = str(sent.body.get("prompt_cache_retention") or "")
        model = str(sent.body.get("model") or "")
        found.requests.append(
            PromptRequest(
                line,
                model,
                segments,
                sent.time,
                session,
                tokens,
                cached,
                retention,
                output,
                reasoning,
                body=body,
                adapter=adapter,
                cache_salt=_key(sent.body.get("cache_salt") or ""),
                instance=instance,
            )
        )
        found.shapes[name] += 1
        return
    found.unread["an entry that is not a request"] += 1


def _key(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _interned(body: Mapping[str, Any], same: dict[Any, Any]) -> dict[str, Any]:
    """Return a body with interned messages and tools."""
    return {
        name: [same.setdefault(msgspec.json.encode(part), part) for part in value] if isinstance(value, list) else value
        for name, value in body.items()
    }


def reported(usage: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the reported numbers of prompt tokens and of cached ones; None if not reported."""
    if "cache_read_input_tokens" in usage:  # Anthropic: `input_tokens` counts only tokens after the last breakpoint
        counts = [_count(usage.get(f"{name}input_tokens")) or 0 for name in ("", "cache_creation_", "cache_read_")]
        return sum(counts), counts[-1]
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    cached = details.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
    return _count(usage.get("prompt_tokens", usage.get("input_tokens"))), _count(cached)


def reported_answer(usage: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the reported numbers of output tokens and of reasoning tokens; None if not reported."""
    details = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
    output = _count(usage.get("completion_tokens", usage.get("output_tokens")))
    return output, _count(details.get("reasoning_tokens"))


def _entries(path: Path, unread: Counter[str]) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as file:
        if (document := _single_document(file)) is not None:
            try:
                yield from enumerate(_entries_of(document), 1)
            except FAULTS:
                unread["a document without a list of entries"] += 1
            return
        file.seek(0)
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
            if not line.strip():
                continue
            try:
                entries = _entries_of(msgspec.json.decode(line))
            except FAULTS:
                unread["a line that is not JSON or has no list of entries"] += 1
                continue
            yield from ((number, entry) for entry in entries)


def _single_document(file: IO[bytes]) -> Any:
    """Return the document if the file is a single JSON document, or None for JSON lines."""
    first = file.readline(MAX_LINE_BYTES)
    if first.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        msgspec.json.decode(first)
    except FAULTS:
        try:
            return msgspec.json.decode(first + file.read())
        except FAULTS:
            return None
    return None


def _entries_of(document: Any) -> list[Any]:
    """Return the entries of a document: a list, a HAR or OTLP spans; otherwise the document itself."""
    if isinstance(document, list):
        return document
    if not isinstance(document, dict):
        return [document]
    if isinstance(log := document.get("log"), dict) and "entries" in log:
        return list(log["entries"])
    if "resourceSpans" in document:
        scopes = [scope for resource in document["resourceSpans"] for scope in resource.get("scopeSpans", ())]
        return [span for scope in scopes for span in scope.get("spans", ())]
    return [document]


def _har(entry: dict[str, Any]) -> Sent | None:
    text = entry["request"].get("postData", {}).get("text") if isinstance(entry.get("request"), dict) else None
    if text is None or "startedDateTime" not in entry:
        return None
    response = entry.get("response") or {}
    answer = response.get("content", {}).get("text") or ""
    headers = {one["name"]: one.get("value") for one in response.get("headers") or ()}
    return Sent(_decoded(text), _seconds(entry["startedDateTime"]), "", _usage_in(answer), _instance(headers))


def _pair(entry: dict[str, Any]) -> Sent | None:
    request = entry.get("request")
    if not isinstance(request, dict) or "body" not in request:
        return None
    answer = entry.get("response") or {}
    usage = _usage_in(answer.get("body") or answer.get("body_raw") or answer.get("sse_events") or "")
    when = entry.get("timestamp") or request.get("timestamp") or entry.get("logged_at")
    instance = _instance(answer.get("headers") or {})
    return Sent(_decoded(request["body"]), _seconds(when), str(entry.get("session_id") or ""), usage, instance)


def _instance(headers: Mapping[str, Any]) -> str:
    """Return the instance named by the headers of a response, or ""."""
    return next((str(value) for name, value in headers.items() if name.lower() in INSTANCE_HEADERS and value), "")


def _proxied(entry: dict[str, Any]) -> Sent | None:
    request = entry.get("request")
    if not isinstance(request, dict) or "path" not in entry:
        return None
    return Sent(request, _seconds(entry.get("time")), str(entry.get("session") or ""), entry.get("usage") or {})


def _has_hashes(value: Any) -> bool:
    if isinstance(value, dict):
        return is_hashed(value) or any(map(_has_hashes, value.values()))
    return isinstance(value, list) and any(map(_has_hashes, value))


def _litellm(entry: dict[str, Any]) -> Sent | None:
    entry = entry.get("standard_logging_object") or entry
    if "call_type" not in entry or "messages" not in entry:
        return None
    body = {**(entry.get("model_parameters") or {}), "model": entry.get("model"), "messages": entry["messages"]}
    answer = entry.get("response")
    usage = answer.get("usage") if isinstance(answer, dict) else None
    usage = usage or {"prompt_tokens": entry.get("prompt_tokens")}
    instance = str(entry.get("model_id") or entry.get("api_base") or "")
    return Sent(body, _seconds(entry.get("startTime")), str(entry.get("trace_id") or ""), usage, instance)


def _span(entry: dict[str, Any]) -> Sent | None:
    attributes = entry.get("attributes")
    if isinstance(attributes, list):  # OTLP: {"key": …, "value": {"stringValue": …}}
        attributes = {one["key"]: next(iter(one["value"].values()), None) for one in attributes}
    if not isinstance(attributes, dict) or "gen_ai.input.messages" not in attributes:
        return None
    parts = {name: _decoded_json(attributes[f"gen_ai.{name}"]) for name in SPAN_PARTS if f"gen_ai.{name}" in attributes}
    body: dict[str, Any] = {
        "model": attributes.get("gen_ai.request.model"),
        "tools": parts.get("tool.definitions", []),
        "system": [_part(one) for one in parts.get("system_instructions", [])],
        "messages": [
            {"role": message["role"], "content": [_part(part) for part in message["parts"]]}
            for message in parts["input.messages"]
        ],
    }
    usage = {name: _count(attributes.get(f"gen_ai.usage.{name}")) for name in ("input_tokens", "output_tokens")}
    if (cached := attributes.get("gen_ai.usage.cache_read.input_tokens")) is not None:
        usage["input_tokens_details"] = {"cached_tokens": _count(cached)}  # type: ignore[assignment]
    when = entry.get("startTimeUnixNano")
    time = int(when) / 1e9 if when is not None else _seconds(entry.get("start_time"))
    server = [str(attributes[name]) for name in ("server.address", "server.port") if attributes.get(name)]
    return Sent(body, time, str(attributes.get("gen_ai.conversation.id") or ""), usage, ":".join(server))


def _body(entry: dict[str, Any]) -> Sent | None:
    return Sent(entry) if any(name in entry for name in PROMPTS) else None


ADAPTERS = ("lora_path", "adapter_id", "lora")  # SGLang, LoRAX, llama.cpp; in vLLM an adapter is a `model`
INSTANCE_HEADERS = ("x-ms-region", "x-litellm-model-id")  # Azure, LiteLLM
NO_PLACE = ("global", "not_available")  # values of Anthropic's `inference_geo` that name no region
SPAN_PARTS = ("input.messages", "system_instructions", "tool.definitions")
PRIVATE = "kvtheater proxy --private"
SHAPES: dict[str, Callable[[dict[str, Any]], Sent | None]] = {
    "HAR": _har,
    "request and response": _pair,  # claude-tap, tracetap
    PRIVATE: lambda entry: _proxied(entry) if _has_hashes(entry.get("request")) else None,
    "kvtheater proxy": _proxied,
    "LiteLLM": _litellm,
    "OpenTelemetry span": _span,
    "request body": _body,
}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """Convert a part of an OpenTelemetry message to a block."""
    match part.get("type"):
        case "text":
            return {"type": "text", "text": part.get("content", "")}
        case "reasoning":
            return {"type": "thinking", "thinking": part.get("content", "")}
        case "tool_call":
            return {"type": "tool_use", "name": part.get("name"), "input": part.get("arguments")}
        case "tool_call_response":
            return {"type": "tool_result", "content": part.get("response", part.get("result"))}
    return part


def _usage_in(answer: Any) -> dict[str, Any]:
    """Return the usage of a response, which is an object, its text, or the text or list of a stream's events."""
    if isinstance(answer, str):
        if not answer.lstrip().startswith("{"):
            data = [line[5:].strip() for line in answer.splitlines() if line.startswith("data:")]
            return _usage_in([_decoded_json(one) for one in data if one.startswith("{")])
        answer = _decoded_json(answer)
    if isinstance(answer, list):
        found: dict[str, Any] = {}
        for event in answer:
            found |= _usage_in(event)
        return found
    return usage_of(answer) or {}


def usage_of(answer: Any) -> dict[str, Any] | None:
    """Return the usage of a response or of a stream's event, or None. Anthropic's first event has it nested."""
    inner = (answer, *map(answer.get, ("message", "response", "data"))) if isinstance(answer, dict) else ()
    found = (one.get("usage") for one in inner if isinstance(one, dict))
    usage = next((one for one in found if isinstance(one, dict)), None)
    return None if usage is None else {name: value for name, value in usage.items() if value is not None}


def _decoded(body: Any) -> dict[str, Any]:
    body = msgspec.json.decode(body) if isinstance(body, str) else body
    if not isinstance(body, dict):
        raise ValueError("the body is not an object")
    if not body.keys() & set(PROMPTS):
        raise ValueError("the request is not for a language model")
    return body


def _decoded_json(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _count(value: Any) -> int | None:
    if value is None:
        return None
    if not 0 <= (count := int(value)) <= MAX_COUNT:
        raise ValueError("a number of tokens is below 0 or above 2^53")
    return count


def _seconds(when: Any) -> float | None:
    """Convert a number or an ISO 8601 time (default: UTC) to seconds since the epoch."""
    if isinstance(when, str):
        read = datetime.fromisoformat(when)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    return float(when) if when is not None else None
