"""Request files in the formats of several programs."""

import copy
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.prompts.report_page import report_page
from app.proxy.exchange import Exchanges, Mode
from engine.prompts.readers import PromptError, read_prompts
from engine.prompts.report import CacheReplay, Settings
from engine.prompts.savings import savings
from engine.prompts.tokens import characters_of, open_encoder
from tests.unit.prompts.sessions import anthropic, chat

BODY = {**chat(2, tools=("read",)), "model": "gpt"}
USAGE = {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 64}}
STREAM = (
    'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":10,'
    '"cache_read_input_tokens":64,"cache_creation_input_tokens":16}}}\n\n'
    'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":5}}\n\n'
)
PARTS = [
    {"role": message["role"], "parts": [{"type": "text", "content": message["content"]}]}
    for message in BODY["messages"][1:]
]
SPAN = {
    "startTimeUnixNano": "1764244800000000000",
    "attributes": [
        {"key": key, "value": {"stringValue": value}}
        for key, value in {
            "gen_ai.request.model": "gpt",
            "gen_ai.input.messages": json.dumps(PARTS),
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": BODY["messages"][0]["content"]}]),
            "gen_ai.tool.definitions": json.dumps(BODY["tools"]),
            "gen_ai.usage.input_tokens": "90",
            "gen_ai.usage.cache_read.input_tokens": "64",
            "gen_ai.usage.output_tokens": "7",
        }.items()
    ],
}
HAR = {
    "startedDateTime": "2025-11-27T12:00:00.000Z",
    "request": {"url": "https://api.example/v1/chat/completions", "postData": {"text": json.dumps(BODY)}},
    "response": {"content": {"text": json.dumps({"usage": USAGE})}},
}
TIME = 1764244800.0
FILES: dict[str, tuple[str, Any]] = {
    "HAR": ("HAR", {"log": {"entries": [HAR]}}),
    "claude-tap": (
        "request and response",
        {
            "timestamp": "2025-11-27T12:00:00+00:00",
            "turn": 1,
            "request": {"method": "POST", "path": "/v1/messages", "body": BODY},
            "response": {"status": 200, "body": {"usage": USAGE}},
        },
    ),
    "tracetap": (
        "request and response",
        {
            "request": {"timestamp": TIME, "url": "https://api.example/v1/messages", "body": BODY},
            "response": {"status_code": 200, "body_raw": STREAM},
            "logged_at": "2025-11-27T12:00:01.000Z",
        },
    ),
    "proxy": ("kvtheater proxy", {"path": "/v1/chat/completions", "time": TIME, "request": BODY, "usage": USAGE}),
    "LiteLLM": (
        "LiteLLM",
        {
            "call_type": "acompletion",
            "model": "gpt",
            "messages": BODY["messages"],
            "startTime": TIME,
            "model_parameters": {"tools": BODY["tools"]},
            "response": {"usage": USAGE},
        },
    ),
    "OpenTelemetry": ("OpenTelemetry span", {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}),
}


@pytest.mark.parametrize("lines", [True, False], ids=["lines", "indented"])
@pytest.mark.parametrize("name", FILES)
def test_all_file_formats_give_the_same_request(name: str, lines: bool, tmp_path: Path) -> None:
    shape, document = FILES[name]
    path = tmp_path / "file"
    path.write_text(f"{json.dumps(document)}\n" * 2 if lines else json.dumps(document, indent=1))
    found = read_prompts(path)
    assert found.shapes == {shape: 2 if lines else 1} and not found.unread
    request = found.requests[0]
    assert (request.time, request.model, request.reported_tokens, request.reported_cached) == (TIME, "gpt", 90, 64)
    assert request.reported_output == {"OpenTelemetry": 7, "tracetap": 5}.get(name)
    plain = tmp_path / "plain"
    plain.write_text(json.dumps(BODY))
    (body,) = read_prompts(plain).requests
    assert [segment.text for segment in request.segments] == [segment.text for segment in body.segments]


@pytest.mark.parametrize(
    ("usage", "reported"),
    [
        ({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 5}}, (9, 5)),
        ({"output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 5}}, (9, 5)),
        ({"output_tokens": 9}, (9, None)),
        ({}, (None, None)),
    ],
)
def test_output_and_reasoning_tokens_are_read(
    usage: dict[str, Any], reported: tuple[int | None, int | None], tmp_path: Path
) -> None:
    path = tmp_path / "proxy"
    path.write_text(json.dumps({"path": "/v1/responses", "time": TIME, "request": BODY, "usage": usage}))
    (request,) = read_prompts(path).requests
    assert (request.reported_output, request.reported_reasoning) == reported


def test_tools_and_system_prompt_precede_messages_in_every_api(tmp_path: Path) -> None:
    """Responses has items instead of messages."""
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r"}]},
        {"type": "function_call", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "found"},
    ]
    responses = {"model": "m", "input": items, "instructions": "s", "tools": [{"type": "function", "name": "read"}]}
    (tmp_path / "r").write_text(f"{json.dumps(responses)}\n{json.dumps(anthropic(2))}")
    one, other = read_prompts(tmp_path / "r").requests
    assert [s.kind for s in one.segments] == ["tool", "system", "message", "reasoning", "call", "result"]
    assert [s.kind for s in other.segments] == [
        "tool",
        "system",
        "message",
        "message",
        "call",
        "result",
        "message",
        "message",
    ]


def test_entries_that_are_no_requests_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "mixed"
    lines = [
        "not json",
        "[1]",
        '{"a": 1}',
        json.dumps({**BODY, "messages": 3}),
        json.dumps({"messages": []}),
        json.dumps(BODY),
    ]
    path.write_text("\n".join(lines))
    found = read_prompts(path)
    assert len(found.requests) == 1 and sum(found.unread.values()) == 5
    path.write_text("\n".join(lines[:5]))
    with pytest.raises(PromptError, match="has no request"):
        read_prompts(path)


@pytest.mark.parametrize("shape", [chat, anthropic])
@pytest.mark.parametrize("mode", ["redacted", "whole", "private"])
def test_proxy_files_of_every_mode_give_the_same_verdicts(mode: Mode, shape: Any, tmp_path: Path) -> None:
    path = tmp_path / "proxy"
    file = Exchanges(path, mode, b"secret")
    for body in (shape(2, tools=("read",)), shape(3, tools=("read",)), shape(3, "Another.", ("read",))):
        file.add("/v1/messages", TIME, json.dumps(body).encode(), USAGE, [])
    file.close()
    found = read_prompts(path)
    assert found.is_private == (mode == "private") and not found.unread
    player = CacheReplay(characters_of, Settings())
    first, second, third = (player.run(request) for request in found.requests)
    assert second.hits["sglang"].num_tokens == first.num_tokens and second.parted is None
    assert third.parted is not None and third.parted.cause == "system_changed"


ENCODE = cache(open_encoder)
NASTY: list[Any] = [
    None,
    True,
    -1,
    1e300,
    10**400,
    "",
    "x",
    "\ud800",
    "\0",
    [],
    {},
    [[]],
    [None],
    {"a": None},
    {"type": "text"},
]


def parts(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, part in inner for one in parts(part, (*path, key)))]


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_unexpected_values_are_read_or_reported(data: st.DataObject) -> None:
    """Every request that is read can be simulated and shown on the page."""
    document = copy.deepcopy(data.draw(st.sampled_from([BODY, anthropic(2), *(one for _, one in FILES.values())])))
    path = data.draw(st.sampled_from(parts(document)[1:]))
    part = document
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = data.draw(st.sampled_from(NASTY))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        file.write_text(f"{json.dumps(document)}\n{json.dumps(BODY)}\n")
        found = read_prompts(file)
    encode = ENCODE()
    player = CacheReplay(encode, Settings())
    verdicts = [player.run(request) for request in found.requests]
    report_page(
        "file", verdicts, savings(found.requests, verdicts, encode, Settings()), [], "vllm", None, "en"
    ).encode()


@pytest.mark.parametrize("count", [-1, 10**400])
def test_impossible_token_counts_are_reported(count: int, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    entry = {"path": "/v1/messages", "time": TIME, "request": BODY, "usage": {"input_tokens": 1}}
    path.write_text(json.dumps(entry) + "\n" + json.dumps(entry | {"usage": {"input_tokens": count}}))
    found = read_prompts(path)
    assert len(found.requests) == 1 and "a number of tokens is below 0" in next(iter(found.unread))


@pytest.mark.parametrize("mode", ["redacted", "private"])
def test_completion_prompts_are_read(mode: Mode, tmp_path: Path) -> None:
    file = tmp_path / "traffic.jsonl"
    exchanges = Exchanges(file, mode, b"secret")
    for prompt in ("tide and moon", "tide and sun", [8123, 8124]):
        exchanges.add("/v1/completions", 0.0, json.dumps({"model": "m", "prompt": prompt}).encode(), None, ())
    exchanges.close()
    found = read_prompts(file)
    number = 3 if mode == "private" else 2  # private lines have only a hash of token ids
    assert [[one.path for one in request.segments] for request in found.requests] == [["prompt"]] * number
    assert found.requests[0].segments != found.requests[1].segments and sum(found.unread.values()) == 3 - number
    assert ("8123" in file.read_text()) == (mode == "redacted")
