"""Every bad message gets a one-sentence error, and the server survives."""

from typing import Any

import pytest
import requests

DEEP: dict[str, Any] = {}
for _ in range(200):
    DEEP = {"a": DEEP}

BAD: list[tuple[str, Any]] = [
    ("create", 5),
    ("create", None),
    ("create", {"config": 3}),
    ("create", {"config": {"blok_size": 4}}),
    ("create", {"config": {"block_size": "4"}}),
    ("create", {"config": DEEP}),
    ("create", {"name": "x" * 201}),
    ("create", {"naem": "x"}),
    ("create", {b"name": "x"}),
    ("join", {}),
    ("join", {"theater": "THEATER", "from": -1}),
    ("join", {"theater": "THEATER", "from": 2**60}),
    ("join", {"theater": ["THEATER"]}),
    ("submit", {"theater": "THEATER", "prompts": []}),
    ("submit", {"theater": "THEATER", "prompts": [{"text": 5}]}),
    ("submit", {"theater": "THEATER", "prompts": [{"text": "x" * 65537}]}),
    ("submit", {"theater": "THEATER", "prompts": [{"text": "水" * 30000}]}),
    ("submit", {"theater": "THEATER", "prompts": [{"text": "a"}] * 65}),
    ("submit", {"theater": "THEATER", "prompts": [{"text": "a", "request_id": ""}]}),
    ("submit", {"theater": "THEATER", "prompts": [{"text": "a"}], "sampling": {"temperature": "hot"}}),
    ("step", {"theater": "THEATER", "count": 0}),
    ("step", {"theater": "THEATER", "count": 10**9}),
    ("step", {"theater": "THEATER", "count": True}),
    ("step", {"theater": "THEATER", "expect": -1}),
    ("run", {"theater": "THEATER", "speed": -1}),
    ("run", {"theater": "THEATER", "speed": float("nan")}),
    ("abort", {"theater": "THEATER"}),
    ("configure", {"theater": "THEATER", "config": []}),
    ("focus", {"theater": "THEATER", "layers": [-1], "heads": None}),
    ("focus", {"theater": "THEATER", "layers": [99], "heads": None}),
    ("focus", {"theater": "THEATER", "layers": [0] * 5000, "heads": None}),
    ("projection", {"theater": "THEATER", "layer": 0, "part": "o", "head": 0}),
    ("projection", {"theater": "THEATER", "layer": 0, "part": "q", "head": -1}),
    ("recompute", {"theater": "THEATER", "seq_id": 0, "layer": 2}),
    ("recompute", {"theater": "THEATER", "seq_id": 0, "layer": 0, "heads": [2]}),
    ("recompute", {"theater": "THEATER", "seq_id": 0, "layer": 0, "heads": []}),
    ("recompute", {"theater": "THEATER", "seq_id": 0, "layer": 0, "num_tokens": 0}),
    ("read", {"theater": "THEATER", "from": -5, "to": 3}),
    ("tokenize", {}),
    ("tokenize", {"text": "x" * 65537}),
    ("dance", {}),
    ("", {}),
]


@pytest.fixture(scope="module")
def shared():
    from tests.server.conftest import Server

    server = Server()
    client = server.client()
    yield client, client.do("create")["theater"], server.url
    server.close()


def put(message: Any, theater: str) -> Any:
    if isinstance(message, dict) and message.get("theater") == "THEATER":
        return {**message, "theater": theater}
    return message


@pytest.mark.parametrize(("event", "message"), BAD)
def test_a_bad_message_is_refused_in_one_sentence(shared, event, message):
    client, theater, _ = shared
    if message is None:
        answer = client.io.call(event, None, timeout=10)  # a client that sends nothing asks for the defaults
        assert answer["ok"] or answer["error"]["code"] == "bad_request"
        return
    assert client.refused(event, put(message, theater))["code"] == "bad_request"


@pytest.mark.parametrize("event", ["join", "leave", "pause", "reset", "step", "prefill", "abort", "read", "run"])
def test_an_unknown_theater(shared, event):
    client, _, _ = shared
    optional: dict[str, dict[str, Any]] = {
        "abort": {"request_id": "r"},
        "read": {"from": 0, "to": 1},
        "run": {"speed": 1},
    }
    fields = optional.get(event, {})
    error = client.refused(event, {"theater": "../../etc/passwd", **fields})
    assert error["code"] == "unknown_theater"


def test_the_message_names_the_field(shared):
    client, theater, _ = shared
    error = client.refused("step", {"theater": theater, "count": "one"})
    assert error["message"] == "count: expected `int`, got `str`"
    error = client.refused("create", {"config": {"blok_size": 4}})
    assert "'blok_size'" in error["message"] and "block_size" in error["message"]


def test_two_arguments_and_special_names(shared):
    client, _, url = shared
    assert client.io.call("step", ({}, {}), timeout=10)["error"]["code"] == "bad_request"
    for name in ("connect", "disconnect"):  # would begin or end the client's books
        assert client.ask(name, {"x": 1})["error"]["message"].startswith("there is no event")
    client.io.emit("message", "x")
    assert client.do("tokenize", text="a")["token_ids"] == [97]
    assert requests.get(f"{url}/api/health").json()["ok"]


def test_invalid_packets_are_refused(shared):
    client, _, url = shared
    import websocket

    for garbage in (b"\xc1\xc1", b"4", "4hello", "9", "", b"\x93\x01", "4" + "[" * 5000):
        raw = websocket.create_connection(url.replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket")
        raw.recv()
        raw.send(garbage, websocket.ABNF.OPCODE_BINARY if isinstance(garbage, bytes) else websocket.ABNF.OPCODE_TEXT)
        raw.close(timeout=1)
    assert client.do("tokenize", text="a")["token_ids"] == [97]
