"""Hostile bodies at the addresses of Anthropic's API and of Responses are refused in one sentence, in their shape."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.server.apis import Api
from tests.server.scripted import scripted_api

SAID = {"role": "user", "content": "hello"}
USUAL: dict[str, dict[str, Any]] = {
    "/v1/messages": {"model": "scripted", "max_tokens": 2, "messages": [SAID]},
    "/v1/messages/count_tokens": {"model": "scripted", "messages": [SAID]},
    "/v1/responses": {"model": "scripted", "max_output_tokens": 2, "input": [SAID]},
}


def tool(path: str, schema: Any) -> dict[str, Any]:
    if path == "/v1/responses":
        return {"type": "function", "name": "f", "parameters": schema}
    return {"name": "f", "input_schema": schema}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with scripted_api(tmp_path_factory.mktemp("model") / "scripted") as found:
        yield found


@pytest.mark.parametrize("path", USUAL)
def test_a_hostile_body_is_refused_in_one_sentence_and_the_next_request_works(api: Api, path: str) -> None:
    usual = USUAL[path]
    name = "input" if path == "/v1/responses" else "messages"
    hostile: list[bytes] = [b"", b"{", b"null", b"[" * 200_000, b'{"messages": "\xff"}', b'{"input": NaN}']
    for more in (
        {name: [SAID] * 70_000},
        {name: [{"role": "user", "content": "x" * 3_000_000}]},
        {name: [{"role": "user", "content": [{"type": "text", "text": None}]}]},
        {name: [{"role": "user", "content": {"a": 1}}]},
        {name: [{"role": "user", "content": "\ud800"}]},
        {"tools": [tool(path, {"description": "x" * 3_000_000})]},
        {"tools": 3},
        {"model": 3},
    ):
        hostile.append(json.dumps(usual | more).encode())
    if path != "/v1/messages/count_tokens":  # which may count more than fits
        hostile.append(json.dumps(usual | {"tools": [tool(path, {"enum": [0] * 500_000})]}).encode())
    for data in hostile:
        answer = requests.post(api.url + path, data=data, timeout=60)
        error = answer.json()["error"]
        assert answer.status_code == 400, (answer.text, data[:100])
        assert error["type"] == "invalid_request_error" and 0 < len(error["message"]) < 400, error
        assert "\n" not in error["message"]
    for depth in (100, 300, 900, 1100, 5000, 50_000):  # taken or refused, but no mistake of the server's
        body = json.dumps(usual | {"tools": [tool(path, {"x": 1})]}).replace(
            '{"x": 1}', '{"a":' * depth + "1" + "}" * depth
        )
        assert requests.post(api.url + path, data=body, timeout=60).status_code in (200, 400), depth
    assert requests.post(api.url + path, json=usual, timeout=60).status_code == 200
