"""Order and timing of streamed responses."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from app.openai import call_response
from app.openai import engine as of_engine
from app.openai.call import Call
from app.openai.call_response import CallResponse
from app.openai.engine import AsyncEngine
from app.openai.messages_response import Messages
from app.openai.request import ApiRequest, Prompt
from app.openai.response import Completions
from app.openai.response_format import ResponseFormat
from app.openai.streams import Streams
from engine.config import SamplingParams


class Stream:
    def __init__(self, name: str, sent: list[str]) -> None:
        self.name, self.sent = name, sent

    def notify(self) -> None:
        self.sent.append(self.name)


def test_first_tokens_are_sent_before_other_streams() -> None:
    sent: list[str] = []
    streams = Streams(on_urgent_sent=lambda: sent.append("-"))
    going, first, last = (Stream(name, sent) for name in ("going", "first", "last"))
    streams.notify({going: False, first: True, last: False})  # type: ignore[dict-item]
    gevent.sleep(0)
    assert sent == ["first", "-", "going", "last"]


def test_a_late_stream_is_sent_once_with_urgent_tokens() -> None:
    sent: list[str] = []
    streams = Streams(on_urgent_sent=lambda: None)
    streams._pace, one = 0.02, Stream("one", sent)
    streams.notify({one: False})  # type: ignore[dict-item]
    gevent.sleep(0)
    streams.notify({one: False})  # type: ignore[dict-item]
    streams.notify({one: True})  # type: ignore[dict-item]
    gevent.sleep(0.05)
    assert sent == ["one", "one"]


@pytest.mark.parametrize(
    ("phase", "count", "waits"), [("prefill", 1, True), ("decode", 1, False), ("prefill", 17, False)]
)
def test_the_engine_thread_waits_until_first_tokens_are_written(
    phase: str, count: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_engine, "HUB_SECONDS", 30.0)
    written: list[int] = []

    def call_hub(_: Any) -> None:
        def write() -> None:
            written.append(1)
            engine._first_sent.set()

        if waits:
            threading.Timer(0.02, write).start()

    engine = AsyncEngine(call_hub, lambda: None, 100)
    batch = [SimpleNamespace(samples=True, phase=phase)] * count
    engine.took(SimpleNamespace(kind="step", batch=batch), num_waiting=0)  # type: ignore[arg-type]
    assert bool(written) is waits


def test_a_deadline_counts_from_the_arrival_of_the_request() -> None:
    request = ApiRequest(kind="completion", prompts=[Prompt(token_ids=[1])], sampling=SamplingParams())
    call = Call(request, "a", "m", "t", arrived_at=time.monotonic() - 100)
    engine = AsyncEngine(lambda do: do(), lambda: None, 8)
    late = CallResponse(Completions(call, lambda _: b""), engine, "http://here/", 99.0, lambda **_: None)
    status, _ = late.head()
    assert status == "408 deadline_exceeded" and b"99 seconds" in b"".join(late)


@pytest.mark.parametrize(
    ("shape", "alive"), [(Completions, b": waiting"), (Messages, b'event: ping\ndata: {"type":"ping"}')]
)
def test_a_waiting_stream_sends_keepalive_comments(
    shape: type[ResponseFormat], alive: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies close silent connections, so the head is sent before the request is submitted, and then comments."""
    monkeypatch.setattr(call_response, "KEEP_ALIVE_SECONDS", 0.02)
    request = ApiRequest(kind="completion", prompts=[Prompt(token_ids=[1])], sampling=SamplingParams(), stream=True)
    call = Call(request, "a", "m", "t", arrived_at=time.monotonic())
    engine = AsyncEngine(lambda do: do(), lambda: None, 8)
    late = CallResponse(shape(call, lambda _: b""), engine, "http://here/", 0.3, lambda **_: None)
    status, headers = late.head()
    assert status == "200 OK" and ("X-Accel-Buffering", "no") in headers
    *comments, end = late
    assert len(comments) >= 3 and set(comments) == {alive + b"\n\n"}
    assert b"by this client's deadline of 0.3 seconds" in end
