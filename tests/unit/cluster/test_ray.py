"""Instances as Ray actors: tokens equal those of one engine, and a lost actor costs at most a prefill."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.cluster.messages import ModelSource
from engine.cluster.process_cluster import process_cluster
from engine.cluster.processes import Processes
from engine.config import ConfigError, EngineConfig
from engine.connector.link import text_of
from engine.model.loaded import LoadedModel
from engine.simulate.degrees import request_rate
from engine.trace.check import check
from engine.trace.operations import Arrive, Expire, Lost, Send, TransferFailed
from tests.unit.cluster.clusters import ask
from tests.unit.cluster.processes import instance_pair, until
from tests.unit.connector.pair import PLAIN, PROMPTS, SETTINGS, baseline

pytest.importorskip("ray", reason="ray is not installed: pip install kvtheater[ray]")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workers(folder: str) -> Iterator[Any]:
    from engine.cluster.ray_worker import RayWorkers

    with RayWorkers(ModelSource(folder), num_cpus=0.1) as store:
        yield store


def apart(config: EngineConfig) -> EngineConfig:
    return replace(config, prefill=1, decode=1, instances="process", routing_policy="round_robin")


@pytest.mark.parametrize("name", ["plain", "chunks", "swap", "hybrid", "int8"])
def test_ray_actors_give_the_tokens_of_one_engine(name: str, model: LoadedModel, workers: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    with closing(process_cluster(model, apart(SETTINGS[name]), workers, log_path=path)) as cluster:
        found = cluster.submit([ask(prompt) for prompt in PROMPTS])
        while cluster.num_unfinished:
            cluster.step()
        sequences = cluster.log.state_now().sequences.values()
        generated = {s.request_id: s.token_ids[s.num_prompt_tokens :] for s in sequences}
        ops = [op for index in range(len(cluster.log)) for op in cluster.log.record(index).ops]
    assert [generated[one.request_id] for one in found] == baseline(SETTINGS[name], PROMPTS, model)
    assert list(check(path)) == []
    arrivals = [op for op in ops if isinstance(op, Arrive)]
    assert {op.link for op in arrivals} == {"ray object store"}
    assert sum(op.num_bytes for op in arrivals) == sum(op.num_bytes for op in ops if isinstance(op, Send)) > 0


def test_an_instance_that_cannot_start_reports_the_reason(workers: Any) -> None:
    with Processes(workers) as processes:
        wrong = processes.start("wrong", "mixed", EngineConfig(block_size=4, num_blocks=40, max_model_len=9999))
        with pytest.raises(ConfigError, match="max_model_len"):
            wrong.wait_until_ready()


def test_invalid_transfer_references_are_refused(model: LoadedModel, workers: Any) -> None:
    with instance_pair(workers, PLAIN) as both:
        remote = both.send(PROMPTS[0])
        both.receive(remote, PROMPTS[0])
        both.run(both.decode)
        both.run(both.prefill)
        bad = {
            "consumed": remote,
            "unknown": remote._replace(transfer="t99"),
            "gone": remote._replace(engine_id="nowhere"),
        }
        for reason, wrong in bad.items():
            prompt = [33, *PROMPTS[0][1:]]
            seq_id = both.receive(wrong._replace(text=text_of(prompt, reason)), prompt, cache_salt=reason)
            both.run(both.decode)
            assert both.of(TransferFailed, "decode-0")[-1].reason == reason
            assert both.tokens[seq_id] == baseline(PLAIN, [prompt], model)[0]


@pytest.mark.parametrize("by", ["ray", "the machine"])
def test_a_killed_sender_costs_a_prefill(by: str, model: LoadedModel, workers: Any) -> None:
    with instance_pair(workers, PLAIN) as both:
        seq_id = both.receive(both.send(PROMPTS[0]), PROMPTS[0])
        if by == "ray":
            both.prefill.kill()
        else:
            os.kill(both.prefill.pid, signal.SIGKILL)
            until(lambda: both.take(both.prefill) or both.prefill.has_ended)
        exit_cause = both.prefill.take_exit_cause()
        assert exit_cause is not None and exit_cause.startswith("its actor has ended")
        both.run(both.decode)
        assert [op.reason for op in both.of(TransferFailed, "decode-0")] == ["gone"]
        assert both.tokens[seq_id] == baseline(PLAIN, [PROMPTS[0]], model)[0]


def test_the_blocks_for_a_killed_receiver_are_freed(workers: Any) -> None:
    with instance_pair(workers, PLAIN, lease=0.5) as both:
        both.receive(both.send(PROMPTS[0]), PROMPTS[0])
        both.decode.kill()
        both.run(both.prefill)
        assert len(both.of(Expire, "prefill-0")) == 1 and not both.of(Send, "prefill-0")


def test_an_ended_instance_is_restarted(model: LoadedModel, workers: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    with closing(process_cluster(model, apart(PLAIN), workers, log_path=path, lease=2.0)) as cluster:
        found = cluster.submit([ask(prompt) for prompt in PROMPTS])
        cluster.lose(0)
        while cluster.num_unfinished:
            cluster.step()
        sequences = cluster.log.state_now().sequences.values()
        generated = {s.request_id: s.token_ids[s.num_prompt_tokens :] for s in sequences}
        ops = [op for index in range(len(cluster.log)) for op in cluster.log.record(index).ops]
        assert cluster.instances[0].config.num_blocks == 40
    assert [generated[one.request_id] for one in found] == baseline(PLAIN, PROMPTS, model)
    assert len([op for op in ops if isinstance(op, Lost)]) == 1
    assert list(check(path)) == []


def test_results_of_parallel_calls_are_numbered_by_call() -> None:
    from engine.cluster.ray_tasks import on_ray

    calls = [(60.0, tokens) for tokens in (2, 3, 4, 7)]
    assert dict(on_ray(None, request_rate, calls)) == dict(enumerate([60.0, 30.0, 20.0, 10.0]))
