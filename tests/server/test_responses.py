"""`/v1/responses`: OpenAI's shapes, whole and streamed, and its own client."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
import requests

from tests.server.apis import Api
from tests.server.scripted import LOOK, PATH, SAYS, scripted_api

TOOLS: list[Any] = [{"type": "function", "name": "read", "description": "Reads a file.", "parameters": PATH}]
BODY: dict[str, Any] = {
    "model": "scripted",
    "instructions": "You read files.",
    "input": "What does a.txt say?",
    "tools": TOOLS,
    "max_output_tokens": 50,
    "metadata": {"a": "b"},
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with scripted_api(tmp_path_factory.mktemp("model") / "scripted") as found:
        yield found


def post(api: Api, **fields: Any) -> requests.Response:
    return requests.post(f"{api.url}/v1/responses", json=BODY | fields, timeout=60)


def put_together(answer: requests.Response) -> dict[str, Any]:
    """Return the last event's response, which the events before it must have built."""
    events: list[dict[str, Any]] = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    assert [one["type"] for one in events[:2]] == ["response.created", "response.in_progress"]
    items: list[dict[str, Any]] = []
    for one in events[2:-1]:
        assert one["output_index"] == len(items) - (one["type"] != "response.output_item.added")
        match one["type"]:
            case "response.output_item.added":
                items.append(one["item"])
            case "response.content_part.added":
                items[-1]["content"].append(one["part"])
            case "response.output_text.delta":
                items[-1]["content"][one["content_index"]]["text"] += one["delta"]
            case "response.function_call_arguments.delta":
                items[-1]["arguments"] += one["delta"]
            case "response.output_item.done":
                items[-1]["status"] = one["item"]["status"]
                assert items[-1] == one["item"]
    assert events[-1]["response"]["output"] == items
    assert events[-1]["type"] == f"response.{events[-1]['response']['status']}"
    return dict(events[-1]["response"])


def without_ids(event: dict[str, Any]) -> dict[str, Any]:
    output = [
        {name: value for name, value in item.items() if name not in ("id", "call_id")} for item in event["output"]
    ]
    return {**event, "id": "", "created_at": 0, "output": output}


@pytest.mark.parametrize(
    ("fields", "status", "kinds"),
    [
        ({}, "completed", ["message", "function_call"]),
        ({"max_output_tokens": 2}, "incomplete", ["message"]),
        ({"tools": []}, "completed", ["message"]),
    ],
)
def test_a_stream_makes_the_whole_response(api: Api, fields: dict[str, Any], status: str, kinds: list[str]) -> None:
    post(api, **fields)  # both of the next two find the same in the cache
    whole = post(api, **fields).json()
    assert (whole["status"], [item["type"] for item in whole["output"]]) == (status, kinds)
    assert {item["status"] for item in whole["output"]} == {status}
    details = whole["usage"]["input_tokens_details"]
    assert details["cached_tokens"] > 0 and details["cache_write_tokens"] == 0 and whole["metadata"] == {"a": "b"}
    assert without_ids(put_together(post(api, stream=True, **fields))) == without_ids(whole)


def test_a_stored_response_is_continued(api: Api) -> None:
    first = post(api).json()
    result = {"type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "春江."}
    second = post(api, input=[result], previous_response_id=first["id"]).json()
    whole = [{"role": "user", "content": BODY["input"]}, *first["output"], result]
    assert second["output"][0]["content"][0]["text"] == "".join(SAYS)
    assert second["usage"]["input_tokens"] == post(api, input=whole).json()["usage"]["input_tokens"]
    forgotten = post(api, store=False, stream=True)
    for response_id in (put_together(forgotten)["id"], "resp_unknown"):
        refused = post(api, previous_response_id=response_id)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "previous_response_not_found")


def test_openais_client_calls_a_tool_and_sends_back_what_it_said(api: Api) -> None:
    client = api.client()
    reply = client.responses.create(**BODY)
    message, call = reply.output
    assert reply.output_text == "".join(LOOK).rstrip() and message.type == "message"
    assert call.type == "function_call" and json.loads(call.arguments) == {"path": "a.txt"}
    with client.responses.stream(**BODY) as stream:
        assert "".join(one.delta for one in stream if one.type == "response.output_text.delta") == reply.output_text
        assert stream.get_final_response().output[1].arguments == call.arguments  # type: ignore[union-attr]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "春江."}
    body = BODY | {"input": [{"role": "user", "content": BODY["input"]}, *reply.output, result]}

    async def several() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{api.url}/v1", api_key="me", max_retries=0) as one:
            return await asyncio.gather(*(one.responses.create(**body) for _ in range(4)))

    with ThreadPoolExecutor(1) as thread:  # a test that drives a browser leaves a running loop in this one
        found = thread.submit(asyncio.run, several()).result()
    for answer in found:
        assert answer.output_text == "".join(SAYS) and answer.usage.input_tokens_details.cached_tokens > 0
    for fields in ({"max_output_tokens": 5000}, {"tool_choice": "required"}, {"previous_response_id": "x"}):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(**BODY | fields)
        assert refused.value.param == next(iter(fields))


def test_openais_client_has_the_same_from_chat_completions(api: Api) -> None:
    client = api.client()
    function = {name: value for name, value in TOOLS[0].items() if name != "type"}
    body: dict[str, Any] = {
        "model": "scripted",
        "max_tokens": 50,
        "tools": [{"type": "function", "function": function}],
        "messages": [{"role": "user", "content": BODY["input"]}],
    }
    choice = client.chat.completions.create(**body).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.tool_calls
    call = choice.message.tool_calls[0]
    assert call.type == "function" and json.loads(call.function.arguments) == {"path": "a.txt"}
    with client.chat.completions.stream(**body) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.content == choice.message.content and message.tool_calls
    assert message.tool_calls[0].function.arguments == call.function.arguments
    more = [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "春江."}]
    answer = client.chat.completions.create(**body | {"messages": body["messages"] + more})
    assert answer.choices[0].message.content == "".join(SAYS)
