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

PLACES = 6


class Queue:
    """Engine with a queue only: requests wait until the next step."""

    def __init__(self) -> None:
        self.config = EngineConfig(max_num_seqs=PLACES // 2, mixed=2)
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


def test_a_queue_takes_as_many_as_have_places_on_all_instances_and_a_few(engine: AsyncEngine) -> None:
    queue = Queue()
    ask(engine, 30)
    while engine.has_more:
        engine.tend(queue, may_enter=True)  # type: ignore[arg-type]
    assert queue.waiting == PLACES + AHEAD


def test_requests_sent_since_the_last_step_do_not_count_as_waiting(engine: AsyncEngine) -> None:
    """An instance in a process computes while requests are sent, so these do not show that it has no room."""
    queue = Queue()
    engine.took(record("step"), num_waiting=0)
    ask(engine, 2)
    engine.tend(queue, may_enter=True)  # type: ignore[arg-type]
    engine.took(record("submit"), num_waiting=2)
    ask(engine, 30)
    while engine.has_more:
        engine.tend(queue, may_enter=True)  # type: ignore[arg-type]
    assert queue.waiting == PLACES + AHEAD


def test_no_place_is_filled_while_a_step_leaves_sequences_waiting(engine: AsyncEngine) -> None:
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
    assert engine.has_more and engine.has_news, "what is left is taken in after a look at the instances"
    while engine.has_more:
        engine.tend(queue, may_enter=True)  # type: ignore[arg-type]
    assert queue.waiting == PLACES + AHEAD
