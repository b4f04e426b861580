"""Run a scenario: every variant at every point of the axis, interleaved, for a number of rounds.

A round visits the points in random order, and at each point all variants in random order, back to back. A ratio
compares runs that are adjacent in time, so slow changes of the machine's speed cancel out. A warm-up run precedes the
first round; its figures are discarded, and its outputs are the reference for later ones.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import Struct

from engine.bench.clusters import Clusters
from engine.bench.drive import run_engine
from engine.bench.drive_instances import run_instances
from engine.bench.environment import environment, refusal
from engine.bench.errors import BenchError, Cancelled
from engine.bench.figures import Samples, figures, same_tokens
from engine.bench.findings import findings
from engine.bench.formulas import Context
from engine.bench.measurement import Measurement
from engine.bench.metrics import METRICS, NEED_ROOFS
from engine.bench.models import Models
from engine.bench.peers import make_peer
from engine.bench.peers.base import Peer, PeerError
from engine.bench.quiet import busy_cpus, cpu_times, wait_until_quiet
from engine.bench.record import MetricInfo, Point, Record
from engine.bench.scenario import Cell, Scenario, Value, cell_of, without_paths
from engine.bench.separate_processes import SeparateProcesses
from engine.bench.workload import WorkloadRequest, requests_of
from engine.config import ConfigError
from engine.engine import Engine
from engine.model.errors import ModelError
from engine.requests.request_spec import RequestError
from engine.setup.machine import measure_roofs
from engine.trace.records import Roofs

REFUSALS = (BenchError, ConfigError, ModelError, PeerError, RequestError)  # recorded per cell; other cells continue


class Progress(Struct, frozen=True, kw_only=True):
    """Progress of a scenario: `done` of `total` runs. `seconds_left` is estimated from the first run on."""

    scenario: str
    phase: Literal["waiting", "warm-up", "round"]
    round: int  # from 1; 0 before
    rounds: int
    at: Value | None
    variant: str
    done: int
    total: int
    seconds_left: float | None


class _CellRun:
    """Cell with the results of its runs."""

    def __init__(self, cell: Cell, at: Value) -> None:
        self.cell = cell
        self.at = at
        self.requests: list[WorkloadRequest] = []
        self.samples: Samples = {}
        self.outputs: list[list[list[int]]] | None = None
        self.warm: Measurement | None = None
        self.identical = True
        self.failed = ""
        self.trace: str | None = None
        self.seconds = 0.0  # of the last run, to estimate the time left


class Runner:
    """Run of a scenario.

    Args:
        scenario: the scenario; `rounds` and `seed` override its values.
        on_progress: called before each run, on the calling thread.
        cancelled: called between the steps of the engine and between runs.
        on_engine: called with every engine before its first request, for example to read its log.
        keep_logs: engines of observer "none" also write a log, which takes a little time.
        traces: folder for a .kvtrace of each variant's warm-up run at each point.
        quiet_seconds: longest wait for a quiet machine.
        models: models to use, which remain loaded after the run.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        rounds: int | None = None,
        seed: int | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
        on_engine: Callable[[Cell, Engine], None] = lambda *_: None,
        keep_logs: bool = False,
        traces: Path | None = None,
        quiet_seconds: float = 60.0,
        command: str = "",
        models: Models | None = None,
    ) -> None:
        self._scenario = scenario
        self._rounds = rounds or scenario.rounds
        self._seed = scenario.seed if seed is None else seed
        self._on_progress, self._cancelled, self._on_engine = on_progress, cancelled, on_engine
        self._keep_logs = keep_logs
        self._traces = traces
        self._quiet_seconds = quiet_seconds
        self._command = command
        self._models, self._closes_models = models or Models(), models is None
        self._clusters = Clusters()
        self._processes = SeparateProcesses()
        self._peers: dict[tuple[str, str, str], Peer | str] = {}  # loaded peer, or why it cannot be loaded
        self._runs = [
            _CellRun(cell_of(scenario, point, variant), case.value)
            for point, case in enumerate(scenario.axis.points())
            for variant in scenario.variants
        ]
        self._done = 0
        self._roofs: Roofs | None = None  # if a metric needs them

    def run(self) -> Record:
        """Run the scenario. If cancelled after the first round, return the complete rounds, marked as not complete.

        Raises:
            Cancelled: cancelled before the end of the first round.
            ModelError, BenchError: no variant of the engine can run.
        """
        if (reason := refusal(self._scenario)) is not None:
            raise BenchError(f"{self._scenario.id}: {reason.en}")
        try:
            self._report("waiting", 0, None)
            quiet = wait_until_quiet(self._quiet_seconds, self._cancelled)
            if NEED_ROOFS.intersection(self._scenario.measure):
                self._roofs = self._measured_roofs()  # now, while nothing else runs
            self._warm_up()
            before = cpu_times()
            finished = self._measure()
            busy = busy_cpus(before, cpu_times())
            return self._record(finished, quiet, busy)
        finally:
            for peer in self._peers.values():
                if isinstance(peer, Peer):
                    peer.close()
            self._clusters.close()
            self._processes.close()
            if self._closes_models:
                self._models.close()

    def _warm_up(self) -> None:
        for run in self._runs:
            self._report("warm-up", 0, run)
            try:
                vocab, encode = self._vocabulary(run.cell)
                run.requests = requests_of(run.cell.workload, vocab, self._seed, encode)
                run.warm = self._timed(run, warming_up=True)
            except Cancelled:
                raise
            except REFUSALS as error:
                run.failed = _sentence(error)
            except Exception as error:
                if run.cell.peer is None:
                    raise
                run.failed = f"it failed: {_sentence(error)}"  # a peer may raise any exception; other cells continue
        if all(run.failed for run in self._runs):
            raise BenchError(f"scenario {self._scenario.id}: nothing can run here; the first: {self._runs[0].failed}")

    def _measure(self) -> int:
        """Run all rounds; return the number of complete ones."""
        order = np.random.default_rng(self._seed)
        running = [run for run in self._runs if not run.failed]
        for number in range(1, self._rounds + 1):
            found: list[tuple[_CellRun, Measurement]] = []
            try:
                for run in _shuffled(running, order):
                    self._report("round", number, run)
                    found.append((run, self._timed(run)))
            except Cancelled:
                if number == 1:
                    raise
                return number - 1  # an incomplete round gives no ratios
            for run, measurement in found:
                self._add_samples(run, measurement)
        return self._rounds

    def _timed(self, run: _CellRun, warming_up: bool = False) -> Measurement:
        if self._cancelled():
            raise Cancelled
        gc.collect()  # keep the collection of the previous run's garbage out of the measured time
        began = time.perf_counter()
        if run.cell.apart:
            measurement = self._processes.run(run.cell, self._models.source(run.cell.model), run.requests)
        else:
            measurement = self._run_peer(run) if run.cell.peer else self._run_engine(run, warming_up)
        run.seconds = time.perf_counter() - began
        self._done += 1
        return measurement

    def _run_engine(self, run: _CellRun, warming_up: bool) -> Measurement:
        cell = run.cell
        if cell.engine.num_instances:
            return self._run_instances(run)
        path = None
        if self._traces is not None and warming_up:
            self._traces.mkdir(parents=True, exist_ok=True)
            path = self._traces / f"{self._scenario.id}.{cell.variant}.{cell.point}.kvtrace"
            run.trace = path.name
        return run_engine(
            self._models.engine_model(cell.model, cell.dtype, compiled=not cell.engine.enforce_eager),
            cell.engine,
            run.requests,
            cell.sampling,
            tiers=cell.tiers,
            observer="log" if self._keep_logs and cell.observer == "none" else cell.observer,
            log_path=path,
            on_engine=lambda engine: self._on_engine(cell, engine),
            cancelled=self._cancelled,
        )

    def _run_instances(self, run: _CellRun) -> Measurement:
        cell = run.cell
        model = self._models.engine_model(cell.model, cell.dtype)
        cluster = self._clusters.cluster(model, self._models.source(cell.model), cell.engine)
        return run_instances(cluster, run.requests, cell.sampling, cancelled=self._cancelled)

    def _run_peer(self, run: _CellRun) -> Measurement:
        peer = self._peer(run.cell)
        if isinstance(peer, str):
            raise PeerError(peer)
        return peer.run(run.requests, run.cell.sampling, run.cell.engine)

    def _peer(self, cell: Cell) -> Peer | str:
        assert cell.peer is not None
        key = (cell.peer, cell.model, cell.dtype)
        if key not in self._peers:
            peer = make_peer(cell.peer)
            reason = peer.unavailable()
            if reason is None:
                try:
                    peer.load(self._models, cell.model, cell.dtype)
                except Exception as error:
                    reason = f"it cannot load the model: {_sentence(error)}"
            self._peers[key] = reason or peer
        return self._peers[key]

    def _versions(self) -> dict[str, str]:
        """Return each peer's version by variant, as reported by its process."""
        loaded = {name: peer.version() for (name, _, _), peer in self._peers.items() if isinstance(peer, Peer)}
        peers = {variant.id: variant.peer for variant in self._scenario.variants if variant.peer is not None}
        return {name: loaded.get(peer) or make_peer(peer).version() for name, peer in peers.items()}

    def _measured_roofs(self) -> Roofs:
        model = self._models.engine_model(self._runs[0].cell.model, self._runs[0].cell.dtype)
        return measure_roofs(model.device, model.dtype)

    def _vocabulary(self, cell: Cell) -> tuple[int, Callable[[str], list[int]] | None]:
        model = self._models.engine_model(cell.model, cell.dtype)
        return model.facts.vocab_size, model.tokenizer.encode if model.tokenizer is not None else None

    def _add_samples(self, run: _CellRun, measurement: Measurement) -> None:
        reference = self._reference(run)
        roofs = self._roofs
        context = Context(
            self._scenario.slo,
            reference,
            bytes_per_second=roofs.bytes_per_second if roofs else None,
            flops_per_second=roofs.flops_per_second if roofs else None,
        )
        for name in self._scenario.measure:
            run.samples.setdefault(name, []).append(METRICS[name].of(measurement, context))
        if reference is not None:
            run.identical &= same_tokens(measurement.outputs, reference.outputs)

    def _reference(self, run: _CellRun) -> Measurement | None:
        """Return the warm-up of the first baseline (or the first variant) that ran at the same point."""
        order = [*self._scenario.baselines, *(variant.id for variant in self._scenario.variants)]
        warm_ups = {other.cell.variant: other.warm for other in self._runs if other.cell.point == run.cell.point}
        return next((warm for name in order if (warm := warm_ups.get(name)) is not None), None)

    def _record(self, rounds: int, quiet: bool, busy: float | None) -> Record:
        scenario = self._scenario
        points = [self._point(run) for run in self._runs]
        measured = {name for point in points for name in point.figures}
        model = self._models.engine_model(self._runs[0].cell.model, self._runs[0].cell.dtype)
        infos = {name: METRICS[name] for name in scenario.measure if name in measured}
        return Record(
            scenario=without_paths(scenario),
            environment=environment(
                model.device, model.dtype, command=self._command, seed=self._seed, quiet=quiet, busy_cpus=busy
            ),
            rounds=rounds,
            complete=rounds == self._rounds,
            peers=self._versions(),
            axis_values=[case.value for case in scenario.axis.points()],
            metrics={
                name: MetricInfo(unit=m.unit, better=m.better, source=m.source, title=m.title)
                for name, m in infos.items()
            },
            points=points,
            findings=findings(scenario, points),
        )

    def _point(self, run: _CellRun) -> Point:
        baselines = {
            other.cell.variant: other.samples
            for other in self._runs
            if other.cell.point == run.cell.point and other.cell.variant in self._scenario.baselines
        }
        return Point(
            at=run.at,
            variant=run.cell.variant,
            figures=figures(run.samples, baselines, self._seed),
            tokens_identical=run.identical if self._scenario.compare_tokens and not run.failed else None,
            failed=run.failed,
            trace=run.trace,
        )

    def _report(self, phase: Literal["waiting", "warm-up", "round"], number: int, run: _CellRun | None) -> None:
        running = [other for other in self._runs if not other.failed]
        total = len(running) * (self._rounds + 1)
        timed = [other.seconds for other in running if other.seconds]
        left = (total - self._done) * sum(timed) / len(timed) if timed else None
        self._on_progress(
            Progress(
                scenario=self._scenario.id,
                phase=phase,
                round=number,
                rounds=self._rounds,
                at=run.at if run else None,
                variant=run.cell.variant if run else "",
                done=self._done,
                total=total,
                seconds_left=left,
            )
        )


def _shuffled(runs: list[_CellRun], order: np.random.Generator) -> Iterator[_CellRun]:
    """Yield points in random order, and at each its variants in random order."""
    points = sorted({run.cell.point for run in runs})
    for point in order.permutation(points).tolist():
        here = [run for run in runs if run.cell.point == point]
        for index in order.permutation(len(here)).tolist():
            yield here[index]


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text[:300] if text else type(error).__name__
