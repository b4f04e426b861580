"""Requests that are sent to a busy instance return at once, count for routing, and are not lost."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.cluster.cluster import Cluster
from engine.cluster.instance import RoutedRequest
from engine.cluster.local import LocalInstance
from engine.cluster.messages import ModelSource
from engine.cluster.process_cluster import process_cluster
from engine.cluster.worker_process import Workers
from engine.config import EngineConfig
from engine.connector.peer import wait_for_any
from engine.model.loader import load_model
from engine.requests.load import Load
from engine.requests.request_spec import RequestSpec
from engine.trace.check import check
from engine.trace.operations import Lost, Submit
from tests.unit.cluster.clusters import Shape, ask, cluster_of, outputs
from tests.unit.cluster.processes import GREEDY, instance_pair, save_tiny_llama, start_preloaded, until
from tests.unit.connector.pair import PLAIN, PROMPTS, baseline
from tests.unit.engine.runs import tiny_llama


class BusyInstance(LocalInstance):
    """Instance that accepts requests at the start of its next turn, like a process during a step."""

    sent: list[Sequence[RoutedRequest]]

    def send(self, requests: Sequence[RoutedRequest]) -> None:
        self.sent.append(requests)

    @property
    def load(self) -> Load:
        return self.engine.load._replace(can_step=bool(self.sent) or self.engine.load.can_step)

    def begin_turn(self) -> None:
        sent, self.sent = self.sent, []
        for requests in sent:
            self.submit(requests)
        super().begin_turn()


def make_busy(cluster: Cluster) -> None:
    for one in cluster.instances:
        if isinstance(one, LocalInstance) and not isinstance(one, BusyInstance):
            one.__class__ = BusyInstance
            one.sent = []  # type: ignore[attr-defined]


def run(cluster: Cluster) -> None:
    for _ in range(500):
        if not cluster.num_unfinished:
            return
        cluster.step()
    raise AssertionError("requests are unfinished")


@pytest.mark.parametrize("shape", [Shape(1, 1), Shape(mixed=2), Shape(2, 2)])
def test_sent_requests_are_computed_in_a_later_turn(shape: Shape, tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    cluster = cluster_of(tiny_llama(), PLAIN, shape, log_path=path)
    make_busy(cluster)
    ids = cluster.send([ask(prompt) for prompt in PROMPTS])
    assert len(cluster.log) == 0, "no instance has accepted a request"
    run(cluster)
    generated = outputs(cluster)
    cluster.close()
    assert [generated[request_id] for request_id in ids] == baseline(PLAIN, PROMPTS)
    assert list(check(path)) == []


def test_sent_requests_count_as_waiting() -> None:
    cluster = cluster_of(tiny_llama(), PLAIN, Shape(mixed=2))
    make_busy(cluster)
    cluster.dispatch.router.policy = "least_loaded"
    for _ in range(3):
        cluster.send([ask(PROMPTS[0])])
    assert [one.load.waiting for one in cluster.dispatch.candidates([0, 1])] == [2, 1]
    assert [one.queued_tokens for one in cluster.dispatch.candidates([0, 1])] == [2 * 23, 23]
    run(cluster)
    assert [one.load.waiting for one in cluster.dispatch.candidates([0, 1])] == [0, 0]
    cluster.close()


@pytest.mark.parametrize("index", [0, 1])
def test_requests_sent_to_an_ended_instance_are_restarted(index: int, tmp_path: Path) -> None:
    """The requests are rescheduled even if their prompts are already computed."""
    path = tmp_path / "run.kvtrace"
    cluster = cluster_of(tiny_llama(), PLAIN, Shape(1, 1), log_path=path, lease=0.1)
    make_busy(cluster)
    ids = cluster.send([ask(prompt) for prompt in PROMPTS[:2]])
    while not any(getattr(one, "sent", []) for one in cluster.instances[index:]):
        cluster.step()
    cluster.lose(index)
    cluster.step()
    run(cluster)
    generated = outputs(cluster)
    assert [generated[request_id] for request_id in ids] == baseline(PLAIN, PROMPTS[:2])
    log = cluster.log
    assert any(isinstance(op, Lost) for i in range(len(log)) for op in log.record(i).ops)
    cluster.close()
    assert list(check(path)) == []


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    source = ModelSource(save_tiny_llama(tmp_path_factory.mktemp("model")))
    with pytest.MonkeyPatch.context() as patch, Workers(source) as store:
        start_preloaded(patch)
        yield store


@pytest.mark.slow
def test_a_request_sent_during_a_turn_returns_at_once(workers: Workers) -> None:
    """An invalid request that is sent during a turn ends the instance with a sentence."""
    with instance_pair(workers, PLAIN) as both:
        both.prefill.wait_until_ready()
        both.prefill.send([RoutedRequest(RequestSpec(PROMPTS[0], GREEDY, "a"))])
        until(lambda: both.prefill._read_messages() or both.prefill.load.can_step)
        both.prefill.begin_turn()
        both.prefill.send([RoutedRequest(RequestSpec(PROMPTS[1], GREEDY, "b"))])
        assert both.prefill.num_turns, "the turn has not ended"
        until(lambda: both.prefill._read_messages() and both.prefill.load.unfinished == 2)
        submitted = [op for one in both.prefill.take() for op in one.record.ops if isinstance(op, Submit)]
        assert [op.request_id for op in submitted] == ["a", "b"]
        both.prefill.send([RoutedRequest(RequestSpec([1] * 400, GREEDY, "c"))])
        until(
            lambda: (both.prefill._read_messages(), both.prefill.has_ended)[1]
        )  # a step may be reported before the end
        both.prefill.take()
        how = both.prefill.take_exit_cause()
        assert how is not None and how.startswith(
            "it refused a request that passed its check: the prompt has 400 tokens"
        )


@pytest.mark.slow
def test_a_submission_returns_after_its_record_is_logged(workers: Workers) -> None:
    """Requests are submitted one by one while others run, and each gets all its tokens."""
    config = EngineConfig(block_size=4, num_blocks=40, prefill=1, decode=1, routing_policy="round_robin")
    model = load_model(workers.source.model)
    with closing(process_cluster(model, config, workers)) as cluster:
        found = []
        for prompt in PROMPTS:
            (one,) = cluster.submit([ask(prompt)])
            sequence = cluster.log.state_now().sequences[one.seq_id]
            assert sequence.request_id == f"{one.request_id}/prefill"
            found.append(one)
            cluster.step()
        run(cluster)
        generated = outputs(cluster)
    assert [generated[one.request_id] for one in found] == baseline(PLAIN, PROMPTS, model)


@pytest.mark.slow
def test_the_next_turn_of_a_continuing_process_is_queued_in_advance(workers: Workers, tmp_path: Path) -> None:
    """The process does not wait between two steps, and its records equal those of single steps."""
    path = tmp_path / "run.kvtrace"
    config = replace(PLAIN, mixed=1, instances="process")
    assert workers.source.model is not None
    with closing(process_cluster(load_model(workers.source.model), config, workers, log_path=path)) as cluster:
        (one,) = cluster.instances
        cluster.submit([ask(prompt) for prompt in PROMPTS])
        begun = []
        begin_turn = one.begin_turn
        one.begin_turn = lambda: begun.append(one.num_turns) or begin_turn()  # type: ignore[method-assign,func-returns-value]
        cluster.step(0.0)
        assert begun == [0]
        until(lambda: cluster.step(0.0, goes_on=True) and begun[-1] == 1)
        cluster.rest()
        assert not one.num_turns
        count = len(cluster.log)
        assert until(lambda: cluster.step()) and len(cluster.log) == count + 1, "one requested step"
        while cluster.num_unfinished:
            cluster.step(goes_on=True)
        cluster.rest()
        assert list(outputs(cluster).values()) == baseline(PLAIN, PROMPTS)
    assert list(check(path)) == []


@pytest.mark.slow
def test_wake_interrupts_waiting_for_instances(workers: Workers) -> None:
    config = replace(PLAIN, mixed=1, instances="process")
    assert workers.source.model is not None
    with closing(process_cluster(load_model(workers.source.model), config, workers)) as cluster:
        cluster.wake()
        assert wait_for_any([cluster._wakeup.fileno()], 0.0), "a waiting step returns"
        cluster.step()
        assert not wait_for_any([cluster._wakeup.fileno()], 0.0), "the next step waits again"
