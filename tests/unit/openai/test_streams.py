"""When streams are told: what may not wait goes first, and the engine's thread leaves the interpreter for it."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from app.openai import engine as of_engine
from app.openai.engine import AsyncEngine
from app.openai.streams import Streams


class Stream:
    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    def news(self) -> None:
        self.told.append(self.name)


def test_a_first_token_is_told_before_the_streams_of_a_round() -> None:
    told: list[str] = []
    streams = Streams(urgent_told=lambda: told.append("-"))
    going, first, last = (Stream(name, told) for name in ("going", "first", "last"))
    streams.tell({going: False, first: True, last: False})  # type: ignore[dict-item]
    gevent.sleep(0)
    assert told == ["first", "-", "going", "last"]


def test_one_that_is_late_is_told_once_with_what_may_not_wait() -> None:
    told: list[str] = []
    streams = Streams(urgent_told=lambda: None)
    streams._pace, one = 0.02, Stream("one", told)
    streams.tell({one: False})  # type: ignore[dict-item]
    gevent.sleep(0)
    streams.tell({one: False})  # type: ignore[dict-item]
    streams.tell({one: True})  # type: ignore[dict-item]
    gevent.sleep(0.05)
    assert told == ["one", "one"]


@pytest.mark.parametrize(
    ("phase", "count", "waits"), [("prefill", 1, True), ("decode", 1, False), ("prefill", 17, False)]
)
def test_the_engines_thread_lets_first_tokens_be_written(
    phase: str, count: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_engine, "LEFT_TO_HUB", 30.0)
    written: list[int] = []

    def call_hub(_: Any) -> None:
        def write() -> None:
            written.append(1)
            engine._first_told.set()

        if waits:
            threading.Timer(0.02, write).start()

    engine = AsyncEngine(call_hub, lambda: None, 100)
    batch = [SimpleNamespace(samples=True, phase=phase)] * count
    engine.took(SimpleNamespace(kind="step", batch=batch), num_waiting=0)  # type: ignore[arg-type]
    assert bool(written) is waits
