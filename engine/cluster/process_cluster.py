"""Cluster whose instances are processes and compute in parallel."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from engine.cluster.build import plan_instances
from engine.cluster.cluster import Cluster
from engine.cluster.instance import Instance, InstanceGoneError
from engine.cluster.process import ProcessInstance
from engine.cluster.processes import Processes, threads_per_instance
from engine.cluster.router import Router
from engine.cluster.worker_process import Workers
from engine.config import EngineConfig
from engine.connector.transfer import LEASE
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.options.refusal import sentence
from engine.requests.input_processor import InputProcessor
from engine.requests.request_spec import RequestSpec
from engine.setup.resolve import resolve_for

MAX_FAILURES = 3  # consecutive starts of an instance that end before its weights are loaded; then it is not restarted


def process_cluster(
    model: LoadedModel,
    config: EngineConfig,
    workers: Workers,
    *,
    log_path: Path | None = None,
    capture: CaptureRequest | None = None,
    lease: float = LEASE,
) -> Cluster:
    """Return a cluster once all instances have loaded their weights. The caller closes `workers` after the cluster.

    Raises:
        ConfigError: the settings are invalid for the model.
        ModelError: a process cannot load the model.
        InstanceGoneError: a process has ended.
    """
    began = time.perf_counter()
    plans, resolved = plan_instances(model, config, began), resolve_for(config, model.facts)
    own, rate = resolved.config.instance_config, config.link_mb_per_second
    input_processor = InputProcessor(model, resolve_for(own, model.facts))
    processes = Processes(
        workers,
        lease=lease,
        policy=config.kv_load_failure_policy,
        bytes_per_second=None if rate is None else rate * 1e6,
    )

    def check(specs: Sequence[RequestSpec]) -> None:
        input_processor.accept(specs, 0, 0, set())

    last: dict[int, ProcessInstance] = {}
    failures = [0] * len(plans)  # consecutive

    def make(index: int, first_seq_id: int) -> Instance:
        name, role, place = plans[index]
        if index in last:
            failures[index] = 0 if last[index].was_ready else failures[index] + 1
        if failures[index] >= MAX_FAILURES:
            raise InstanceGoneError(sentence("instances.ended_times", name=name, max_failures=MAX_FAILURES))
        place = place._replace(first_seq_id=first_seq_id)
        threads = threads_per_instance(len(plans))
        last[index] = processes.start(name, role, own, place, num_threads=threads, check=check)
        return last[index]

    try:
        instances = [make(index, plan.place.first_seq_id) for index, plan in enumerate(plans)]
        return Cluster(
            model,
            resolved.config,
            instances,
            Router(config.routing_policy, instances, ttft_slo=config.ttft_slo),
            start_instance=make,
            closed=processes.close,
            log_path=log_path,
            capture=capture,
            began=began,
        )
    except BaseException:
        processes.close()
        raise
