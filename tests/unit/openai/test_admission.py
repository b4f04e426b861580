"""Admission of API requests into the engine's queue."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from app.ground.settings import Policy
from app.openai import engine as admission
from app.openai.call import Call
from app.openai.engine import AHEAD, AsyncEngine
from app.openai.request import ApiRequest, Prompt
from engine.config import EngineConfig, SamplingParams

RUNNING_SLOTS = 6


class Queue:
    """Engine that only queues requests."""

    def __init__(self) -> None:
        self.config = EngineConfig(max_num_seqs=RUNNING_SLOTS // 2, mixed=2)
        self.running = self.waiting = 0

    def check(self, prompts: Any, sampling: SamplingParams) -> None:
        """Accept every request."""

    def send(self, prompts: Any, sampling: SamplingParams) -> None:
        self.waiting += len(prompts)

    def queue_lengths(self) -> tuple[int, int]:
        return self.running, self.waiting


def ask(engine: AsyncEngine, count: int) -> None:
    for _ in range(count):
        request = ApiRequest(kind="completion", prompts=[Prompt(token_ids=[1])], sampling=SamplingParams(max_tokens=4))
        engine.submit(Call(request, "a", "m", "t", arrived_at=time.monotonic()), Policy(name="a"))


def record(kind: str) -> Any:
    return SimpleNamespace(kind=kind, batch=[], ops=[], outputs=[], prompt_logprobs=[], index=0, instance=0)


@pytest.fixture
def engine() -> AsyncEngine:
    return AsyncEngine(lambda do: do(), lambda: None, 100)


def test_the_engine_admits_requests_for_all_running_slots_and_a_few_more(engine: AsyncEngine) -> None:
    queue = Queue()
    ask(engine, 30)
    while engine.has_more:
        engine.tend(queue, may_enter=True)  # type: ignore[arg-type]
    assert queue.waiting == RUNNING_SLOTS + AHEAD


def test_requests_sent_after_the_last_step_do_not_count_as_waiting(engine: AsyncEngine) -> None:
    """A process computes while requests are sent to it, so their number does not show that it has no room."""
    queue = Queue()
    engine.took(record("step"), num_waiting=0)
    ask(engine, 2)
    engine.tend(queue, may_enter=True)  # type: ignore[arg-type]
    engine.took(record("submit"), num_waiting=2)
    ask(engine, 30)
    while engine.has_more:
        engine.tend(queue, may_enter=True)  # type: ignore[arg-type]
    assert queue.waiting == RUNNING_SLOTS + AHEAD


def test_only_a_few_requests_are_admitted_while_sequences_wait(engine: AsyncEngine) -> None:
    queue = Queue()
    queue.waiting = 1
    engine.took(record("step"), num_waiting=1)
    ask(engine, 30)
    while engine.has_more:
        engine.tend(queue, may_enter=True)  # type: ignore[arg-type]
    assert queue.waiting == AHEAD


def test_many_concurrent_requests_do_not_delay_the_next_step(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(admission, "ACCEPT_SECONDS", 10.0)
    queue = Queue()
    ask(engine, 30)
    engine.tend(queue, may_enter=True)  # type: ignore[arg-type]
    assert engine.has_more and engine.has_news, "other requests are admitted after the next step"
    while engine.has_more:
        engine.tend(queue, may_enter=True)  # type: ignore[arg-type]
    assert queue.waiting == RUNNING_SLOTS + AHEAD
