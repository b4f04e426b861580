"""Run of a workload on several instances, timed in the process that drives them. Compare `drive`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import NamedTuple

from engine.accounting.memory import stored_bytes_per_token
from engine.bench.drive import due_now, due_of, spec_of
from engine.bench.errors import Cancelled
from engine.bench.instances import InstancesWork, InstanceWork
from engine.bench.measurement import EngineWork, Measurement, RequestTimes
from engine.bench.workload import WorkloadRequest
from engine.cluster.cluster import LONGEST_WAIT, Cluster
from engine.cluster.router import RejectedError
from engine.config import SamplingParams
from engine.trace.operations import Finish, Submit
from engine.trace.records import StepRecord

_runs = itertools.count()


class _Answer:
    """Output of a request so far."""

    def __init__(self, times: RequestTimes) -> None:
        self.times = times
        self.token_ids: list[int] = []
        self.is_finished = False


class _Run:
    """Subscriber of the cluster's log."""

    def __init__(self, work: EngineWork, instances: InstancesWork) -> None:
        self.work, self.instances = work, instances
        self.now = 0.0
        self.began = time.perf_counter()
        self.answers: dict[str, _Answer] = {}  # by request id
        self._of_sequence: dict[int, _Answer] = {}

    def on_record(self, record: StepRecord) -> None:
        self.now = time.perf_counter() - self.began
        self.instances.add(record)
        if record.kind == "step":
            self.work.add(record, 0.0)
        for op in record.ops:
            if isinstance(op, Submit) and op.request_id in self.answers:  # a prefill half has another id
                self._of_sequence[op.seq_id] = self.answers[op.request_id]
        for output in record.outputs:
            answer = self._of_sequence.get(output.seq_id)
            if answer is not None:
                answer.token_ids.append(output.token_id)
                answer.times.tokens.append(self.now)
        for op in record.ops:
            if isinstance(op, Finish) and op.seq_id in self._of_sequence:
                self._of_sequence.pop(op.seq_id).is_finished = True


def run_instances(
    cluster: Cluster,
    requests: list[WorkloadRequest],
    sampling: SamplingParams,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> Measurement:
    """Serve all requests and return the measurement. A request that the router rejects has no tokens.

    The cluster must be idle before the run and is idle after it. Each run has its own cache salt, so it does not hit
    blocks of earlier runs.

    Raises:
        BenchError: an instance ended.
        Cancelled: `cancelled` returned True.
        ConfigError, RequestError: the instances reject a request.
    """
    number = next(_runs)
    bytes_per_token = stored_bytes_per_token(cluster.model.facts, cluster.config.kv_cache_dtype)
    instances = InstancesWork([InstanceWork(one.role) for one in cluster.instances])
    run = _Run(EngineWork(kv_bytes_per_token=bytes_per_token), instances)
    unsubscribe = cluster.log.subscribe(run.on_record)
    try:
        _serve(cluster, run, requests, sampling, f"bench-{number}", cancelled)
    finally:
        unsubscribe()
    answers = list(run.answers.values())
    seconds = max((answer.times.tokens[-1] for answer in answers if answer.times.tokens), default=0.0)
    return Measurement(
        seconds=seconds,
        requests=[answer.times for answer in answers],
        outputs=[[answer.token_ids] for answer in answers],
        work=run.work,
        instances=instances,
    )


class _Submitted(NamedTuple):
    """Submitted request with its full prompt."""

    prompt: list[int]
    answer: _Answer


def _serve(
    cluster: Cluster,
    run: _Run,
    requests: list[WorkloadRequest],
    sampling: SamplingParams,
    name: str,
    cancelled: Callable[[], bool],
) -> None:
    submitted = dict[int, _Submitted]()
    waiting = sorted(range(len(requests)), key=lambda i: (requests[i].at, requests[i].at_step, i))
    run.began = time.perf_counter()

    def ended(index: int) -> float | None:
        if index not in submitted or not submitted[index].answer.is_finished:
            return None
        times = submitted[index].answer.times
        return times.tokens[-1] if times.tokens else times.arrived

    for index in range(len(requests)):  # in the order of the requests, not of their arrival
        run.answers[f"{name}-{index}"] = _Answer(RequestTimes(0.0, late=requests[index].late))
    while waiting or cluster.num_unfinished:
        now = time.perf_counter() - run.began
        due = due_now(requests, waiting, ended, now, run.work.num_steps, not cluster.num_unfinished)
        waiting = [i for i in waiting if i not in due]
        for i in due:
            request = requests[i]
            before = submitted[request.after] if request.after is not None and not request.is_whole else None
            earlier = [*before.prompt, *before.answer.token_ids] if before else []
            spec = spec_of(request, earlier, sampling, f"{name}-{i}")._replace(cache_salt=name)
            answer = run.answers[f"{name}-{i}"]
            timed = request.after is None and request.at_step == 0
            answer.times.arrived = request.at if timed else now
            submitted[i] = _Submitted(list(spec.prompt), answer)  # type: ignore[arg-type]
            try:
                cluster.send([spec])
            except RejectedError:
                run.instances.rejected += 1
                answer.is_finished = True
        if cluster.num_unfinished:
            cluster.step(wait=_until_the_next(requests, waiting, ended, run))
        elif waiting:
            time.sleep(_until_the_next(requests, waiting, ended, run))
        if cancelled():
            raise Cancelled


def _until_the_next(
    requests: list[WorkloadRequest], waiting: list[int], ended: Callable[[int], float | None], run: _Run
) -> float:
    """Return the maximum seconds to wait for the next event."""
    now = time.perf_counter() - run.began
    times = [due for i in waiting if requests[i].at_step == 0 and (due := due_of(requests[i], ended)) is not None]
    return max(0.0, min([at - now for at in times], default=LONGEST_WAIT))
