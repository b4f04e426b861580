"""Answers as their connection takes them."""

from __future__ import annotations

import time

import pytest

from app.openai import answering
from app.openai.answering import Answering
from app.openai.call import Call
from app.openai.engine import AsyncEngine
from app.openai.messages_response import Messages
from app.openai.request import Asked, Prompt
from app.openai.response import Completions
from app.openai.shape import Shape
from engine.config import SamplingParams


def test_a_deadline_counts_from_the_arrival_and_not_from_when_the_body_had_been_read() -> None:
    asked = Asked(kind="completion", prompts=[Prompt(token_ids=[1])], sampling=SamplingParams())
    call = Call(asked, "a", "m", "t", arrived_at=time.monotonic() - 100)
    engine = AsyncEngine(lambda do: do(), lambda: None, 8)
    late = Answering(Completions(call, lambda _: b""), engine, "http://here/", 99.0, lambda **_: None)
    status, _ = late.head()
    assert status == "408 deadline_exceeded" and b"99 seconds" in b"".join(late)


@pytest.mark.parametrize(
    ("shape", "alive"), [(Completions, b": waiting"), (Messages, b'event: ping\ndata: {"type":"ping"}')]
)
def test_a_stream_that_waits_shows_that_it_lives(
    shape: type[Shape], alive: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies end what is silent: the head goes out before the request was submitted, then a comment now and again."""
    monkeypatch.setattr(answering, "PATIENCE", 0.02)
    asked = Asked(kind="completion", prompts=[Prompt(token_ids=[1])], sampling=SamplingParams(), stream=True)
    call = Call(asked, "a", "m", "t", arrived_at=time.monotonic())
    engine = AsyncEngine(lambda do: do(), lambda: None, 8)
    late = Answering(shape(call, lambda _: b""), engine, "http://here/", 0.3, lambda **_: None)
    status, headers = late.head()
    assert status == "200 OK" and ("X-Accel-Buffering", "no") in headers
    *comments, end = late
    assert len(comments) >= 3 and set(comments) == {alive + b"\n\n"}
    assert b"not complete after 0.3 seconds" in end
