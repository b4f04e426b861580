"""Worker of an instance without its process: turns, failed steps, and the order of messages."""

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.cluster.exchange import SharedMemoryExchange
from engine.cluster.inbox import Inbox, Notifier
from engine.cluster.instance import RoutedRequest
from engine.cluster.messages import (
    Abort,
    Answer,
    Begin,
    End,
    ModelSource,
    Ready,
    Submit,
    ToCluster,
    ToInstance,
    Turn,
    TurnOver,
    Wrote,
)
from engine.cluster.worker import IDLE_WAIT, Worker
from engine.config import SamplingParams
from engine.connector.peer import Peer
from engine.requests.request_spec import RequestSpec
from engine.setup.id_namespace import IdNamespace
from engine.trace.codec import decode
from engine.trace.operations import Finish
from engine.trace.records import StepRecord
from tests.unit.connector.pair import GREEDY, PLAIN, PROMPTS, baseline
from tests.unit.engine.runs import tiny_llama


@pytest.fixture
def sent() -> list[ToCluster]:
    return []


Make = Callable[..., Worker]


@pytest.fixture
def make(sent: list[ToCluster]) -> Iterator[Make]:
    """Return a function that starts workers on this thread, which append their messages to `sent`."""
    workers = list[Worker]()
    with tempfile.TemporaryDirectory(prefix="kvt-") as folder:

        def worker(name: str = "one", say: Callable[[ToCluster], None] = sent.append, **more: Any) -> Worker:
            begin = Begin(
                name=name,
                role="mixed",
                folder=folder,
                source=ModelSource(),
                config=more.get("config", PLAIN),
                place=IdNamespace(),
                capture=None,
                num_threads=1,
                processors=[],
                lease=more.get("lease", 5.0),
                policy="recompute",
                bytes_per_second=None,
            )
            workers.append(Worker(begin, tiny_llama(), Notifier(), SharedMemoryExchange(Path(folder)), say))
            return workers[-1]

        yield worker
        for started in workers:
            started.close()


def written(sent: list[ToCluster]) -> list[Wrote]:
    found = [message.wrote if isinstance(message, TurnOver) else message for message in sent]
    return [wrote for wrote in found if isinstance(wrote, Wrote)]


def records(sent: list[ToCluster]) -> list[StepRecord]:
    return [decode(wrote.record, StepRecord) for wrote in written(sent)]


def test_each_turn_reports_its_result_and_end(
    make: Make, sent: list[ToCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = make()
    assert isinstance(sent[0], Ready) and sent[0].config.num_blocks == 40
    worker.answer(Submit([RoutedRequest(RequestSpec(PROMPTS[0], GREEDY))]))
    while not isinstance(sent[-1], TurnOver) or sent[-1].load.unfinished:
        worker.answer(Turn())
    assert [type(message) for message in sent] == [Ready, Wrote, Answer, *[TurnOver] * 9]
    tokens = [output.token_id for record in records(sent) for output in record.outputs]
    assert tokens == baseline(PLAIN, [PROMPTS[0]])[0]
    waits = list[float]()
    monkeypatch.setattr(worker._notifier, "wait", lambda changes, seconds: waits.append(seconds))
    worker.answer(Turn())
    assert isinstance(sent[-1], TurnOver) and waits == [], "an idle instance does not wait"


def test_a_failed_step_aborts_its_batch(make: Make, sent: list[ToCluster], monkeypatch: pytest.MonkeyPatch) -> None:
    worker = make()
    worker.answer(Submit([RoutedRequest(RequestSpec(PROMPTS[0], GREEDY))]))

    def fail(*_: object) -> None:
        raise RuntimeError("no room\nfor it")

    with monkeypatch.context() as patch:
        patch.setattr(worker.engine._runner, "execute", fail)
        worker.answer(Turn())
    over = sent[-1]
    assert isinstance(over, TurnOver) and over.error == "RuntimeError: no room for it" and over.load.unfinished == 0
    (ended,) = [op for op in records(sent)[-1].ops if isinstance(op, Finish)]
    assert ended.reason == "abort" and ended.detail == "the step failed: RuntimeError"
    worker.answer(Submit([RoutedRequest(RequestSpec(PROMPTS[2], SamplingParams(max_tokens=1)))]))
    worker.answer(Turn())
    assert isinstance(sent[-1], TurnOver) and sent[-1].error == "" and len(records(sent)[-1].outputs) == 1


def test_an_arrival_is_logged_before_the_sender_is_notified(make: Make, sent: list[ToCluster]) -> None:
    """The sender still holds all blocks when `arrive` is written, and is woken by the confirmation."""
    sender = make("sender")
    prompt_only = SamplingParams(max_tokens=1, ignore_eos=True)
    sender.answer(
        Submit([RoutedRequest(RequestSpec(PROMPTS[0], prompt_only, "t0", transfer="t0", kv_role="kv_producer"))])
    )
    sender.answer(Turn())
    (remote,) = [offer for wrote in written(sent) for offer in wrote.offers]
    held = list[int]()
    link = sender._exchange.link

    def say(message: ToCluster) -> None:
        if isinstance(message, Wrote) and decode(message.record, StepRecord).kind == "transfer":
            held.append(sender.engine.snapshot().memory.blocks_held)
            link.to("sender").renew("t0")

    receiver = make("receiver", say)
    spec = RequestSpec(PROMPTS[0], GREEDY, transfer="t0", kv_role="kv_consumer")
    receiver.answer(Submit([RoutedRequest(spec, remote)]))
    changes = sender._notifier.num_changes
    waiter = threading.Thread(target=sender._notifier.wait, args=(changes, 30.0))
    waiter.start()
    for _ in range(200):
        receiver.answer(Turn())
        if held:
            break
    assert held == [6]
    waiter.join(5)
    assert not waiter.is_alive()
    sender.answer(Turn())
    assert sender.engine.snapshot().memory.blocks_held == 0


def test_a_turn_that_awaits_a_transfer_has_a_time_limit(make: Make, sent: list[ToCluster]) -> None:
    worker = make(lease=0.2)
    prompt_only = SamplingParams(max_tokens=1, ignore_eos=True)
    worker.answer(
        Submit([RoutedRequest(RequestSpec(PROMPTS[0], prompt_only, "t0", transfer="t0", kv_role="kv_producer"))])
    )
    worker.answer(Turn())
    began = time.perf_counter()
    worker.answer(Turn())
    assert time.perf_counter() - began >= IDLE_WAIT
    while worker.engine.load.holding:
        worker.answer(Turn())
    assert time.perf_counter() - began > 0.1
    assert records(sent)[-1].kind == "transfer"


def test_invalid_messages_are_refused_without_effect(make: Make, sent: list[ToCluster]) -> None:
    worker = make()
    worker.answer(End())
    answer = sent[-1]
    assert (
        isinstance(answer, Answer) and answer.kind == "other" and answer.sentence.endswith("to a running instance: End")
    )


def test_queued_turns_come_after_other_messages_and_end_with_the_instance() -> None:
    """Turns are requested in advance, and messages that arrive during one apply to the next."""
    ours, theirs = socket.socketpair()
    cluster, disconnected = Peer[ToCluster](ours, ToCluster), threading.Event()
    peer = Peer[ToInstance](theirs, ToInstance)
    inbox = Inbox(peer, disconnected.set)

    def say(*messages: ToInstance) -> None:
        changes = inbox.notifier.num_changes
        for number, message in enumerate(messages):
            cluster.send(message)
            while inbox.notifier.num_changes <= changes + number:  # until the message is received
                inbox.notifier.wait(changes + number, 1.0)

    say(Turn(), Turn(), Abort("a"))
    assert [type(inbox.next()) for _ in range(2)] == [Abort, Turn]
    say(Abort("b"), End(), Abort("c"))
    assert [inbox.next() for _ in range(3)] == [Abort("b"), End(), Abort("c")]
    say(Turn())
    assert isinstance(inbox.next(), Turn) and not inbox._turns, "the earlier turn belonged to the ended instance"
    cluster.release()
    assert disconnected.wait(10)
    peer.release()
