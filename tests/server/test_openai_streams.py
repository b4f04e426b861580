"""Streams written without their greenlets: nothing lost, doubled or out of order, and correct times."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from app.models.live_model import LiveModel
from app.transport.connection import HttpConnection
from engine.trace.operations import Submit
from tests.server.apis import Api, served_api

STORY = "Once upon a time"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with served_api() as found:
        yield found


def events(answer: bytes) -> list[dict[str, Any]]:
    """Return the events of a chunked answer, framing and all."""
    body, joined = answer.partition(b"\r\n\r\n")[2], b""
    while body:
        size, _, body = body.partition(b"\r\n")
        joined += body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]
    *lines, done, end = joined.decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_a_slowly_reading_client_gets_everything(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system accepts any part of a piece at once, including none or half."""
    whole = HttpConnection.send_now
    taken: list[int] = []

    def send_now(self: HttpConnection, piece: bytes) -> bool:
        green = self.socket
        taken.append(len(piece) * (len(taken) % 3) // 2)

        class Partly:
            def send_now(self, data: bytes) -> int:
                return int(green.send_now(data[: taken[-1]])) if taken[-1] else 0

            def __getattr__(self, name: str) -> Any:
                return getattr(green, name)

        self.socket = Partly()
        try:
            return whole(self, piece)
        finally:
            self.socket = green

    monkeypatch.setattr(HttpConnection, "send_now", send_now)
    body: dict[str, Any] = {"prompt": STORY, "max_tokens": 60, "ignore_eos": True, "n": 3, "seed": 7}
    with api.open(**body, stream=True) as connection:
        answer = b""
        while not answer.endswith(b"\r\n0\r\n\r\n"):
            piece = connection.recv(1 << 16)
            assert piece, answer[-400:]
            answer += piece
    assert answer.startswith(b"HTTP/1.1 200") and len(taken) > 10
    found = events(answer)
    assert {event["id"] for event in found} == {found[0]["id"]}
    expected = [choice["text"] for choice in api.post(**body).json()["choices"]]
    for index in range(3):
        own = [choice for event in found for choice in event["choices"] if choice["index"] == index]
        assert "".join(choice["text"] for choice in own) == expected[index]
        assert [choice["finish_reason"] for choice in own] == [None] * (len(own) - 1) + ["length"]


def test_a_departed_client_is_noticed_by_any_writer(api: Api) -> None:
    with api.open(prompt=STORY, max_tokens=400, ignore_eos=True, stream=True) as connection:
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
    end = time.monotonic() + 20
    while api.served.engine.num_active or api.held():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_time_before_the_client_queue_counts_as_waiting(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to the first token begins with the request's last byte, as the client measures it."""
    encode = LiveModel.encode

    def slowly(self: LiveModel, text: str) -> list[int]:
        time.sleep(0.3)
        return encode(self, text)

    monkeypatch.setattr(LiveModel, "encode", slowly)
    began = time.monotonic()
    api.post(prompt=STORY, max_tokens=1)
    took = time.monotonic() - began
    [submit] = [op for op in api.records()[-2].ops if isinstance(op, Submit)]
    assert 0.3 <= submit.waited < took


def test_a_thousand_idle_connections_hold_no_thread(api: Api) -> None:
    api.post(prompt=STORY, max_tokens=1)
    threads = threading.active_count()
    with ExitStack() as closing:
        idle = [
            closing.enter_context(socket.create_connection(("127.0.0.1", api.port), timeout=30)) for _ in range(1000)
        ]
        assert api.post(prompt=STORY, max_tokens=1).status_code == 200
        assert threading.active_count() <= threads
        for connection in idle:
            connection.sendall(b"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert all(connection.recv(4096).startswith(b"HTTP/1.1 200") for connection in idle)
