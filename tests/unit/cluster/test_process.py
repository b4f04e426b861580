"""Instances as processes: tokens equal those of one engine, and killed processes leave nothing behind."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from engine.cluster import process
from engine.cluster.cluster import Cluster
from engine.cluster.instance import InstanceGoneError, RoutedRequest
from engine.cluster.messages import ModelSource
from engine.cluster.process import ProcessInstance
from engine.cluster.process_cluster import process_cluster
from engine.cluster.processes import Processes, threads_per_instance
from engine.cluster.worker_process import WorkerProcess, Workers
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.errors import ModelError
from engine.model.loaded import LoadedModel
from engine.options.refusal import Refused
from engine.requests.request_spec import RequestError, RequestSpec
from engine.trace.check import check
from engine.trace.operations import Arrive, Await, Expire, Finish, Lost, Receive, Send, TransferFailed
from tests.conftest import ROOT
from tests.unit.cluster.clusters import ask, outputs
from tests.unit.cluster.processes import GREEDY, instance_pair, is_running, start_preloaded, until
from tests.unit.connector.pair import PLAIN, PROMPTS, SETTINGS, baseline

pytestmark = pytest.mark.slow
SHAPES = {"1+1": (1, 1, 0), "two mixed": (0, 0, 2), "1+1+1": (1, 1, 1)}
CASES = [(name, "1+1") for name in SETTINGS] + [
    (name, shape) for shape in SHAPES if shape != "1+1" for name in ("plain", "swap", "hybrid")
]


@pytest.fixture(scope="module")
def workers(folder: str) -> Iterator[Workers]:
    """Workers for all tests. At the end no process and no file is left."""
    started = list[int]()
    begin = WorkerProcess.__init__

    def record_start(self: WorkerProcess) -> None:
        begin(self)
        started.append(self.pid)

    with tempfile.TemporaryDirectory(prefix="kvt-") as short, pytest.MonkeyPatch.context() as patch:
        start_preloaded(patch)
        patch.setattr(tempfile, "tempdir", short)
        patch.setattr(WorkerProcess, "__init__", record_start)
        with Workers(ModelSource(folder)) as store:
            store.warm(4)
            yield store
        assert started and not any(map(is_running, started))
        assert list(Path(short).iterdir()) == []


def cluster_of(
    model: LoadedModel, workers: Workers, config: EngineConfig, shape: tuple[int, int, int] = (1, 1, 0), **more: Any
) -> Cluster:
    prefill, decode, mixed = shape
    settings = replace(
        config, prefill=prefill, decode=decode, mixed=mixed, instances="process", routing_policy="round_robin"
    )
    return process_cluster(model, settings, workers, **more)


def run(cluster: Cluster, most: int = 5000) -> None:
    for _ in range(most):
        if not cluster.num_unfinished:
            return
        cluster.step()
    raise AssertionError(f"{cluster.num_unfinished} requests are unfinished after {most} steps")


def ops_in(cluster: Cluster) -> list[Any]:
    return [op for index in range(len(cluster.log)) for op in cluster.log.record(index).ops]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_processes_give_the_tokens_of_one_engine(
    name: str, shape: str, model: LoadedModel, workers: Workers, tmp_path: Path
) -> None:
    path = tmp_path / "run.kvtrace"
    with closing(cluster_of(model, workers, SETTINGS[name], SHAPES[shape], log_path=path)) as cluster:
        found = cluster.submit([ask(prompt) for prompt in PROMPTS])
        run(cluster)
        generated, ops = outputs(cluster), ops_in(cluster)
        assert cluster.log.record(len(cluster.log) - 1).memory.blocks_held == 0
    assert [generated[one.request_id] for one in found] == baseline(SETTINGS[name], PROMPTS, model)
    assert list(check(path)) == []
    # in a tight pool, received blocks may have to make room for another sequence
    assert {op.reason for op in ops if isinstance(op, TransferFailed)} <= (
        {"no_room"} if SETTINGS[name].num_blocks == SETTINGS["tight"].num_blocks else set()
    )
    arrivals = [op for op in ops if isinstance(op, Arrive)]
    assert (len(arrivals) > 0) == (shape != "two mixed") and {op.link for op in arrivals} <= {"shared memory"}
    assert sum(op.num_bytes for op in arrivals) == sum(op.num_bytes for op in ops if isinstance(op, Send))


def test_text_prompts_samples_and_beams_equal_those_of_one_engine(model: LoadedModel, workers: Workers) -> None:
    requests = [
        RequestSpec("春江潮水连海平", SamplingParams(max_tokens=6, n=3, temperature=1.0, ignore_eos=True)),
        RequestSpec(PROMPTS[0], SamplingParams(max_tokens=6, use_beam_search=True, beam_width=3, ignore_eos=True)),
        RequestSpec(PROMPTS[1], SamplingParams(max_tokens=6, temperature=0.7, top_k=9, logit_bias={5: 2.5})),
    ]
    with Engine(model, PLAIN) as engine:
        expected = engine.add_requests(requests)
        while engine.has_unfinished():
            engine.step()
    with closing(cluster_of(model, workers, PLAIN)) as cluster:
        cluster.submit(requests)
        run(cluster)
        sequences = cluster.log.state_now().sequences.values()
    replies = [
        {tuple(s.token_ids[s.num_prompt_tokens :]) for s in sequences if s.request_id == f"request-{i}"}
        for i in range(3)
    ]
    for request, found in zip(expected, replies, strict=True):
        assert {tuple(output.output_token_ids) for output in request.outputs} <= found


def test_a_process_refuses_with_the_engines_own_errors(model: LoadedModel, workers: Workers) -> None:
    refused: list[tuple[RequestSpec, type[Refused]]] = [
        (RequestSpec([], GREEDY), RequestError),
        (RequestSpec([1] * 400, GREEDY), RequestError),
        (RequestSpec([999], GREEDY), RequestError),
        (RequestSpec([1], SamplingParams(temperature=-1.0)), ConfigError),
    ]
    with instance_pair(workers, PLAIN) as both, Engine(model, PLAIN) as engine:
        for spec, kind in refused:
            with pytest.raises(kind) as expected:
                engine.check_requests([spec])
            for do in (both.decode.check, lambda specs: both.decode.submit([RoutedRequest(one) for one in specs])):
                with pytest.raises(kind) as found:
                    do([spec])
                assert str(found.value) == str(expected.value)
                assert getattr(found.value, "translations", {}) == getattr(expected.value, "translations", None) != {}
        both.decode.submit([RoutedRequest(RequestSpec([5], GREEDY, "a"))])
        with pytest.raises(RequestError, match="'a' is in use"):
            both.decode.submit(
                [RoutedRequest(RequestSpec([5], GREEDY, "b")), RoutedRequest(RequestSpec([5], GREEDY, "a"))]
            )
        assert both.decode.load.unfinished == 1
        assert both.decode.abort("a") and not both.decode.abort("a")
        assert both.decode.load.unfinished == 0
        assert [op.reason for op in both.of(Finish, "decode-0")] == []
        both.take(both.decode)
        assert [op.reason for op in both.of(Finish, "decode-0")] == ["abort"]


def test_a_failed_instances_process_is_reused(workers: Workers) -> None:
    with Processes(workers) as processes:
        with pytest.raises(ValueError, match="cannot be called"):
            processes.start("a/b", "mixed", PLAIN)
        wrong = processes.start("wrong", "mixed", EngineConfig(block_size=4, num_blocks=40, max_model_len=9999))
        with pytest.raises(ConfigError, match="max_model_len"):
            wrong.wait_until_ready()
        with pytest.raises(ConfigError, match="max_model_len"):
            wrong.submit([RoutedRequest(RequestSpec([1], GREEDY))])
        assert wrong.has_ended and not wrong.is_ready
        right = processes.start("right", "mixed", PLAIN)
        assert right.config.num_blocks == 40 and right.pid == wrong.pid
        with pytest.raises(ValueError, match="already"):
            processes.start("right", "mixed", PLAIN)


def test_unreadable_models_are_refused(tmp_path: Path, workers: Workers) -> None:
    """The process then serves the first model again."""
    worker = workers.take()
    with Workers(ModelSource(str(tmp_path))) as others:
        others.give_back(worker)
        with Processes(others) as processes:
            one = processes.start("one", "mixed", PLAIN)
            with pytest.raises(ModelError, match="contains no model"):
                one.wait_until_ready()
        workers.give_back(others.take())


def test_the_layout_digest_is_equal_in_every_process(model: LoadedModel, workers: Workers) -> None:
    """Equal settings give equal layouts, and other settings different ones."""
    quantized, larger = replace(PLAIN, kv_cache_dtype="int8"), replace(PLAIN, block_size=8)
    with instance_pair(workers, PLAIN, larger) as both:
        assert both.prefill.layout != both.decode.layout
        remote = both.send(PROMPTS[0])
        assert remote.layout == both.prefill.layout
        seq_id = both.receive(remote, PROMPTS[0])
        both.run(both.decode)
        assert [op.reason for op in both.of(TransferFailed, "decode-0")] == ["other_layout"]
        assert both.tokens[seq_id] == baseline(PLAIN, [PROMPTS[0]], model)[0]
        first = both.prefill.layout
    with instance_pair(workers, PLAIN, quantized) as both:
        assert both.prefill.layout == first != both.decode.layout


def test_arrays_are_captured_as_requested(workers: Workers) -> None:
    with instance_pair(workers, PLAIN) as both:
        both.decode.submit([RoutedRequest(RequestSpec([5, 6, 7], GREEDY))])
        captures = list[Any]()
        for request in (None, CaptureRequest(layers=[1], only=True), None):
            both.decode.observe(request)
            captures += [produced.capture for produced in both.turn(both.decode)]
        assert [capture and [layer.layer for layer in capture.layers] for capture in captures] == [
            None,
            None,
            [1],
            None,
        ]
        assert captures[2].layers[0].q.shape == (1, 4, 8)


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_killed_sender_costs_at_most_a_prefill(when: str, model: LoadedModel, workers: Workers) -> None:
    with instance_pair(workers, PLAIN) as both:
        remote = both.send(PROMPTS[0])
        seq_id = both.receive(remote, PROMPTS[0])
        if when == "during":  # a stopped process does not answer
            os.kill(both.prefill.pid, signal.SIGSTOP)
        if when != "before":
            both.run(both.decode, lambda: bool(both.of(Await if when == "during" else Arrive, "decode-0")))
        both.prefill.kill()
        assert both.prefill.take_exit_cause() == "it was ended by SIGKILL" and both.prefill.take_exit_cause() is None
        with pytest.raises(InstanceGoneError, match="instance prefill-0 has ended: it was ended by SIGKILL"):
            both.prefill.begin_turn()
        both.run(both.decode)
        failed = both.of(TransferFailed, "decode-0")
        assert [op.reason for op in failed] == ([] if when == "after" else ["gone"])
        assert both.tokens[seq_id] == baseline(PLAIN, [PROMPTS[0]], model)[0]
        assert bool(both.of(Receive, "decode-0")) == (when == "after")


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_the_blocks_for_a_killed_receiver_are_freed(when: str, workers: Workers) -> None:
    slow = 1000.0 if when == "during" else 1e9
    lease = {"before": 0.5, "during": 3.0, "after": 60.0}[when]
    with instance_pair(workers, PLAIN, lease=lease, bytes_per_second=slow) as both:
        remote = both.send(PROMPTS[0])
        both.receive(remote, PROMPTS[0])
        if when != "before":
            both.run(both.decode, lambda: bool(both.of(Await if when == "during" else Arrive, "decode-0")))
        if when == "after":
            both.run(both.prefill)
        both.decode.kill()
        both.run(both.prefill)
        assert len(both.of(Send, "prefill-0")) == (when == "after")
        assert len(both.of(Expire, "prefill-0")) == (when != "after")


@pytest.mark.parametrize("kind", ["step", "rest"])
def test_a_process_that_hangs_in_a_step_is_ended(
    kind: str, model: LoadedModel, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(cluster_of(model, workers, PLAIN, (0, 0, 1))) as cluster:
        cluster.submit([ask(PROMPTS[0])])
        (one,) = cluster.instances
        assert isinstance(one, ProcessInstance)
        os.kill(one.pid, signal.SIGSTOP)
        one.begin_turn()
        monkeypatch.setattr(process, "ANSWER_SECONDS", 0.2)
        if kind == "rest":
            cluster.rest()
        else:
            until(lambda: cluster.step(0.05) is not None)
        assert [op.detail for op in ops_in(cluster) if isinstance(op, Lost)] == ["it sent no message for 0.2 s"]


def test_an_ended_instance_is_restarted(model: LoadedModel, workers: Workers, tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    with closing(cluster_of(model, workers, PLAIN, log_path=path, lease=2.0)) as cluster:
        for index in range(2):
            found = cluster.submit([ask(prompt) for prompt in PROMPTS])
            cluster.step()
            one = cluster.instances[index]
            assert isinstance(one, ProcessInstance)
            os.kill(one.pid, signal.SIGKILL)
            run(cluster)
            assert cluster.instances[index] is not one
            by_request, expected = outputs(cluster), baseline(PLAIN, PROMPTS, model)
            for request, tokens in zip(found, expected, strict=True):
                generated = by_request[request.request_id]  # partial if the decode instance ended
                assert generated == (tokens if index == 0 else tokens[: len(generated)])
        lost = [op for op in ops_in(cluster) if isinstance(op, Lost)]
    assert [op.detail for op in lost] == ["it was ended by SIGKILL"] * 2
    assert list(check(path)) == []


def test_an_instance_that_fails_to_start_is_not_restarted(
    folder: str, model: LoadedModel, workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each replacement of a killed process exits at once. The other instance serves all requests."""
    path = tmp_path / "run.kvtrace"
    with Workers(ModelSource(folder)) as others:
        for _ in range(2):
            others.give_back(workers.take())
        with closing(cluster_of(model, others, PLAIN, log_path=path)) as cluster:
            monkeypatch.setattr(sys, "executable", "/bin/false")
            cluster.lose(1)
            until(lambda: cluster.step(0.01) is None and len(cluster.log) >= 3)
            lost = [op.detail for op in ops_in(cluster) if isinstance(op, Lost)]
            assert lost == ["it was ended by SIGKILL", *["its exit status is 1"] * 3]
            found = cluster.submit([ask(prompt) for prompt in PROMPTS])
            run(cluster)
            generated = outputs(cluster)
            assert [generated[one.request_id] for one in found] == baseline(PLAIN, PROMPTS, model)
        monkeypatch.undo()
        workers.give_back(others.take())
    assert list(check(path)) == []


PARENT = """
import sys, time
from engine.cluster.messages import ModelSource
from engine.cluster.processes import Processes
from engine.cluster.worker_process import Workers
from engine.config import EngineConfig
processes = Processes(Workers(ModelSource(sys.argv[1])))
config = EngineConfig(block_size=4, num_blocks=40)
both = [processes.start(name, "mixed", config) for name in ("a", "b")]
both[0].wait_until_ready()
print(*[one.pid for one in both], processes.folder, flush=True)
time.sleep(600)
"""


def test_no_process_outlives_its_parent(folder: str) -> None:
    """A process is ready, and the other may still be loading its weights."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, folder], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    *pids, meeting = parent.stdout.readline().split()
    assert all(is_running(int(pid)) for pid in pids) and Path(meeting).is_dir()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not any(is_running(int(pid)) for pid in pids), 20)
    assert not Path(meeting).exists()


def test_threads_are_divided_among_instances() -> None:
    num_threads = min(len(os.sched_getaffinity(0)), torch.get_num_threads())
    assert (
        threads_per_instance(1) == num_threads
        and threads_per_instance(num_threads) == threads_per_instance(num_threads + 1) == 1
    )
    torch.set_num_threads(1)
    try:
        assert threads_per_instance(1) == 1, "the limit of OMP_NUM_THREADS=1"
    finally:
        torch.set_num_threads(num_threads)
