"""Traffic lines of the proxy: redaction by mode, and the usage of the response."""

import gzip
import json
import random
import stat
import zlib
from pathlib import Path
from typing import Any

import pytest

from app.proxy.exchange import KEYS, REDACTED, Exchanges, Mode, UsageReader, redacted

KEY = "sk-ant-api03-abcdefghijklmnop"
BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "metadata": {"user_id": "someone"},
    "system": [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "tools": [{"name": "read", "input_schema": {"properties": {"secret_project": {}}}}],
    "messages": [
        {"role": "user", "content": f"my other key is {KEY}"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "plan.txt"}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "password = hunter2hunter2"}],
        },
    ],
}


def line(tmp_path: Path, mode: Mode, body: Any = BODY, key: str = "a-key-that-is-long") -> dict[str, Any]:
    path = tmp_path / "traffic.jsonl"
    exchanges = Exchanges(path, mode, b"secret")
    exchanges.add("/v1/messages", 1.5, json.dumps(body).encode(), {"input_tokens": 3}, [key])
    exchanges.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = json.loads(path.read_text().splitlines()[-1])
    assert (found["path"], found["time"], found["usage"]) == ("/v1/messages", 1.5, {"input_tokens": 3})
    return dict(found["request"])


def test_mode_whole_redacts_only_the_requests_own_key(tmp_path: Path) -> None:
    assert line(tmp_path, "whole") == BODY
    body = BODY | {"system": "my key is a-key-that-is-long"}
    assert line(tmp_path, "whole", body)["system"] == f"my key is {REDACTED}"
    assert line(tmp_path, "whole", key="m") == BODY, "too short for a secret"


def test_only_secrets_are_redacted(tmp_path: Path) -> None:
    found = line(tmp_path, "redacted")
    assert found["messages"][0]["content"] == f"my other key is {REDACTED}"
    assert found["messages"][2]["content"][0]["content"] == f"password = {REDACTED}"
    assert found["metadata"] == REDACTED
    for name in ("model", "max_tokens", "system", "tools"):
        assert found[name] == BODY[name]
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    assert redacted(picture)["source"] == {"type": "base64", "media_type": "image/png", "data": REDACTED}
    assert redacted("data:image/png;base64,AAAA") == REDACTED
    assert redacted({"input": {"api_key": "x", "max_tokens": "12345678"}})["input"] == {
        "api_key": REDACTED,
        "max_tokens": "12345678",
    }


@pytest.mark.parametrize(
    "secret",
    ["ghp_" + "a" * 36, "AKIA" + "A" * 16, "hf_" + "a" * 30, "xoxb-1234567890-abc", "AIza" + "b" * 35,
     "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK"],
)  # fmt: skip
def test_known_forms_of_keys_are_redacted(secret: str) -> None:
    assert redacted(f"it is {secret} here") == f"it is {REDACTED} here"


def test_mode_private_writes_roles_types_hashes_and_lengths(tmp_path: Path) -> None:
    found = line(tmp_path, "private")
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "user"]
    assert found["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"} and found["max_tokens"] == 9
    assert found["messages"][0]["content"]["length"] == len(BODY["messages"][0]["content"])
    assert set(found["messages"][1]["content"][0]["input"]) == {"hash", "length"}
    text = json.dumps(found)
    for word in ("good", "read", "secret_project", "plan", "path", "hunter", "someone", KEY, "t1"):
        assert word not in text
    assert line(tmp_path, "private") == found, "equal texts have equal hashes"
    changed = line(tmp_path, "private", json.loads(json.dumps(BODY).replace("be good", "be nice")))
    assert changed["system"][0]["text"]["hash"] != found["system"][0]["text"]["hash"]
    assert changed["messages"] == found["messages"]


def test_only_requests_to_models_are_written(tmp_path: Path) -> None:
    exchanges = Exchanges(tmp_path / "traffic.jsonl", "whole", b"")
    for body in (b"", b"{", b"[1]", b'{"a": 1}', b"\xff", b"[" * 100_000):
        exchanges.add("/", 0.0, body, None, [])
    assert exchanges.count == 0


USAGE = {"input_tokens": 3, "cache_read_input_tokens": 2}
STREAMS: dict[str, tuple[list[Any], dict[str, Any] | None]] = {
    "anthropic": (
        [
            {"type": "message_start", "message": {"usage": USAGE}},
            {"type": "message_delta", "usage": {"output_tokens": 5}},
        ],
        USAGE | {"output_tokens": 5},
    ),
    "chat": ([{"choices": [], "usage": None}, {"choices": [], "usage": {"prompt_tokens": 1}}], {"prompt_tokens": 1}),
    "responses": ([{"type": "response.completed", "response": {"usage": USAGE}}], USAGE),
    "none": ([{"choices": []}, [1], "usage"], None),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_usage_is_read_from_a_stream_split_at_any_byte(name: str, encoding: str) -> None:
    stream, usage = STREAMS[name]
    data = b"".join(b"event: x\r\ndata: " + json.dumps(one).encode() + b"\r\n\r\n" for one in stream)
    packed = {"": data, "gzip": gzip.compress(data), "deflate": zlib.compress(data)}[encoding]
    for seed in range(20):
        draw, at = random.Random(seed), 0
        reader = UsageReader("text/event-stream; charset=utf-8", encoding)
        while at < len(packed):
            end = at + draw.randrange(1, 40)
            reader.feed(packed[at:end])
            at = end
        assert reader.end() == usage


@pytest.mark.parametrize(
    ("encoding", "data", "usage"),
    [
        ("", json.dumps({"usage": USAGE}).encode(), USAGE),
        ("gzip", gzip.compress(json.dumps({"usage": USAGE}).encode(), mtime=0), USAGE),
        ("gzip", b"no gzip", None),
        ("br", b"\x00", None),
        ("", b"", None),
        ("gzip", gzip.compress(b" " * (20 << 20), mtime=0), None),
    ],
)
def test_usage_is_read_from_a_response_that_is_not_streamed(
    encoding: str, data: bytes, usage: dict[str, Any] | None
) -> None:
    reader = UsageReader("application/json", encoding)
    reader.feed(data)
    assert reader.end() == usage


def test_a_text_without_a_secret_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    class Counting:
        def sub(self, new: str, text: str) -> str:
            searched.append(text)
            return KEYS.sub(new, text)

    monkeypatch.setattr("app.proxy.exchange.KEYS", Counting())
    clean: set[bytes] = set()
    texts = ["a moon", "password: moonlight-1", "a moon", "password: moonlight-1"]
    assert redacted(texts, clean=clean) == ["a moon", "password: [redacted]"] * 2
    assert searched == ["a moon", "password: moonlight-1", "password: moonlight-1"] and len(clean) == 1
    assert redacted({"password": "a moon"}, clean=clean) == {"password": "[redacted]"}
