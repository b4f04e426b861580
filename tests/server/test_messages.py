"""`/v1/messages`: Anthropic's shapes, whole and streamed, from the engine's real cache; and Anthropic's own client."""

import asyncio
import importlib.util
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from app.ground.settings import ANONYMOUS, ApiSettings, Policy
from app.openai.keys import digest
from tests.server.apis import Api, served_api
from tests.server.scripted import BLOCK, LOOK, PATH, SAYS, scripted_api

TOOLS = [{"name": "read", "description": "Reads a file.", "input_schema": PATH}]
BODY: dict[str, Any] = {
    "model": "scripted",
    "max_tokens": 50,
    "system": [{"type": "text", "text": "You read files.", "cache_control": {"type": "ephemeral"}}],
    "tools": TOOLS,
    "messages": [{"role": "user", "content": "What does a.txt say?"}],
}
needs_client = pytest.mark.skipif(
    importlib.util.find_spec("anthropic") is None, reason="anthropic is not installed: pip install anthropic"
)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with scripted_api(tmp_path_factory.mktemp("model") / "scripted") as found:
        yield found


def post(api: Api, path: str = "/v1/messages", **fields: Any) -> requests.Response:
    return requests.post(api.url + path, json=BODY | fields, headers={"x-api-key": "me"}, timeout=60)


def events(answer: requests.Response) -> list[dict[str, Any]]:
    found = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def put_together(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the message that a client has when the stream is over."""
    first, *rest, last = events
    assert (first["type"], last["type"]) == ("message_start", "message_stop")
    message: dict[str, Any] = first["message"]
    is_open = False
    for one in rest:
        match one["type"]:
            case "content_block_start":
                assert one["index"] == len(message["content"]) and not is_open
                message["content"].append(one["content_block"])
                is_open, arguments = True, ""
            case "content_block_delta":
                assert one["index"] == len(message["content"]) - 1 and is_open
                delta, block = one["delta"], message["content"][-1]
                if delta["type"] == "input_json_delta":
                    arguments += delta["partial_json"]
                    block["input"] = json.loads(arguments)
                else:
                    assert delta["type"] == "text_delta"
                    block["text"] += delta["text"]
            case "content_block_stop":
                is_open = False
            case "message_delta":
                message |= one["delta"]
                message["usage"] |= one["usage"]
    assert not is_open
    return message


def without_ids(message: dict[str, Any]) -> dict[str, Any]:
    content = [{name: value for name, value in block.items() if name != "id"} for block in message["content"]]
    return {**message, "id": "", "content": content}


@pytest.mark.parametrize(
    ("fields", "reason", "kinds"),
    [
        ({}, "tool_use", ["text", "tool_use"]),
        ({"max_tokens": 2}, "max_tokens", ["text"]),
        ({"stop_sequences": ["look"]}, "stop_sequence", ["text"]),
        ({"stop_sequences": ["I"]}, "stop_sequence", []),
        ({"tools": []}, "end_turn", ["text"]),
    ],
)
def test_a_stream_makes_the_whole_message(api: Api, fields: dict[str, Any], reason: str, kinds: list[str]) -> None:
    post(api, **fields)  # both of the next two find the same in the cache
    whole = post(api, **fields).json()
    assert (whole["type"], whole["role"], whole["stop_reason"]) == ("message", "assistant", reason)
    assert [block["type"] for block in whole["content"]] == kinds
    assert whole["stop_sequence"] == (fields["stop_sequences"][0] if reason == "stop_sequence" else None)
    assert without_ids(put_together(events(post(api, stream=True, **fields)))) == without_ids(whole)


def test_usage_counts_prompt_tokens_once_and_hits_as_the_cache(api: Api) -> None:
    fresh = {"system": "A prompt that no other test has."}
    size = post(api, "/v1/messages/count_tokens", **fresh, max_tokens=None).json()["input_tokens"]
    first, second = (post(api, **fresh).json()["usage"] for _ in range(2))
    full = size // BLOCK * BLOCK
    assert first["cache_creation_input_tokens"] + first["cache_read_input_tokens"] == full
    assert first["cache_creation_input_tokens"] >= BLOCK, "the tools, which come first, may have been there"
    assert (second["cache_read_input_tokens"], second["cache_creation_input_tokens"]) == (full, 0)
    assert first["input_tokens"] == second["input_tokens"] == size - full
    assert second["output_tokens"] == 8  # three texts, four of the call, the end


def test_max_tokens_may_exceed_the_context(api: Api) -> None:
    def filled(length: int, **fields: Any) -> requests.Response:
        return post(api, system="z" * length, **fields)

    shortest = filled(1).json()["usage"]
    room = 3
    length = 4096 - room - sum(value for name, value in shortest.items() if name != "output_tokens") + 1
    answer = filled(length, max_tokens=32_000).json()
    assert (answer["stop_reason"], answer["usage"]["output_tokens"]) == ("model_context_window_exceeded", room)
    answer = filled(length, max_tokens=2).json()
    assert (answer["stop_reason"], answer["usage"]["output_tokens"]) == ("max_tokens", 2)
    assert filled(length + room, max_tokens=1).json()["error"]["type"] == "invalid_request_error"


def test_errors_have_anthropics_shape(api: Api) -> None:
    def refused(answer: requests.Response) -> tuple[int, str]:
        assert answer.json()["type"] == "error" and answer.json()["error"]["message"]
        return answer.status_code, answer.json()["error"]["type"]

    assert refused(post(api, max_tokens=0)) == (400, "invalid_request_error")
    assert refused(post(api, model="other")) == (404, "not_found_error")
    assert refused(post(api, "/v1/messages/batches")) == (404, "not_found_error")
    with served_api(ApiSettings(keys={digest("right"): Policy(name=ANONYMOUS)})) as guarded:
        body = BODY | {"model": "bundled", "tools": [], "max_tokens": 2}
        url = f"{guarded.url}/v1/messages"
        for headers, status in (
            ({"x-api-key": "right"}, 200),
            ({"authorization": "Bearer right"}, 200),
            ({"x-api-key": "wrong"}, 401),
            ({}, 401),
        ):
            answer = requests.post(url, json=body, headers=headers, timeout=60)
            assert answer.status_code == status
            assert status == 200 or refused(answer) == (401, "authentication_error")


@needs_client
def test_anthropics_client_calls_a_tool_and_sends_back_what_it_said(api: Api) -> None:
    anthropic: Any = importlib.import_module("anthropic")
    client = anthropic.Anthropic(base_url=api.url, api_key="me", max_retries=0)
    reply = client.messages.create(**BODY)
    text, use = reply.content
    assert text.text == "".join(LOOK).rstrip() and (use.name, use.input) == ("read", {"path": "a.txt"})
    with client.messages.stream(**BODY) as stream:
        assert "".join(stream.text_stream) == text.text
        assert stream.get_final_message().content[1].input == use.input
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "春江."}
    more = [{"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]

    async def several() -> list[Any]:
        async with anthropic.AsyncAnthropic(base_url=api.url, auth_token="me", max_retries=0) as one:
            body = BODY | {"messages": BODY["messages"] + more}
            return await asyncio.gather(*(one.messages.create(**body) for _ in range(4)))

    with ThreadPoolExecutor(1) as thread:  # a test that drives a browser leaves a running loop in this one
        found = thread.submit(asyncio.run, several()).result()
    for answer in found:
        assert (answer.content[0].text, answer.stop_reason) == ("".join(SAYS), "end_turn")
        assert answer.usage.cache_read_input_tokens > 0
    assert client.messages.count_tokens(**{k: v for k, v in BODY.items() if k != "max_tokens"}).input_tokens > 0
    for fields, error in (
        ({"max_tokens": 0}, anthropic.BadRequestError),
        ({"model": "other"}, anthropic.NotFoundError),
        ({"tool_choice": {"type": "any"}}, anthropic.BadRequestError),
    ):
        with pytest.raises(error) as refused:
            client.messages.create(**BODY | fields)
        assert refused.value.body["error"]["message"]
