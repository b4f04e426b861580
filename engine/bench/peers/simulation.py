"""The simulator as a peer of the engine: the same requests without a model.

Step times are calibrated on a separate run of the engine with the same arrivals, immediately before the simulation,
because the speed of a virtual machine varies over minutes.
"""

from __future__ import annotations

from typing import ClassVar

from engine.bench.drive import run_engine
from engine.bench.measurement import EngineWork, Measurement, RequestTimes
from engine.bench.models import Models
from engine.bench.peers.base import Peer, PeerError
from engine.bench.workload import WorkloadRequest
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.simulate.calibrate import Calibration, calibrate, timed_steps
from engine.simulate.cost import Jittered, windows_of
from engine.simulate.simulation import Simulation
from engine.trace.records import StepRecord


class SimulationPeer(Peer):
    """The engine's scheduler, cache and log with a simulated clock."""

    package: ClassVar[str] = "kvtheater"
    module: ClassVar[str] = "engine"

    def load(self, models: Models, model: str, dtype: str) -> None:
        self._models, self._name, self._dtype = models, model, dtype

    def run(self, requests: list[WorkloadRequest], sampling: SamplingParams, config: EngineConfig) -> Measurement:
        if any(request.at_step for request in requests) or sampling.num_sequences > 1:
            raise PeerError("the simulator takes requests by the clock, with one output each")
        model = self._models.engine_model(self._name, self._dtype, compiled=not config.enforce_eager)
        found = calibrated(model, config, requests, sampling)
        work = EngineWork()
        simulation = Simulation(model.facts, config, Jittered(found.cost, found.ratios), keep_log=True)
        assert simulation.log is not None
        simulation.log.subscribe(lambda record: work.add(record, 0.0) if record.kind == "step" else None)
        outcome = simulation.run(requests)
        simulation.close()
        return Measurement(
            seconds=outcome.seconds,
            requests=[
                RequestTimes(one.arrived, one.tokens, request.late)
                for one, request in zip(outcome.requests, requests, strict=True)
            ],
            outputs=[[one.token_ids] for one in outcome.requests],
            work=work,
        )


def calibrated(
    model: LoadedModel, config: EngineConfig, requests: list[WorkloadRequest], sampling: SamplingParams
) -> Calibration:
    """Calibrate step times on a run of the engine."""
    records = list[StepRecord]()

    def listen(engine: Engine) -> None:
        assert engine.log is not None
        engine.log.subscribe(records.append)

    run_engine(model, config, requests, sampling, observer="log", on_engine=listen)
    return calibrate(timed_steps(records, windows_of(model.facts, config.policy)), "step times of this machine")
