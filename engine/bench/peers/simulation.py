"""The simulator, as a peer of the engine that it stands for: the same requests, without a model.

Its step times are those of this machine, from runs of the engine on other requests. They are measured anew every now
and then while it runs: a virtual machine is a fifth faster at one minute than at another, and the engine that it is
compared with is measured all the while.
"""

from __future__ import annotations

import time
from typing import ClassVar

import msgspec

from engine.bench.drive import run_engine
from engine.bench.measurement import EngineWork, Measurement, RequestTimes
from engine.bench.models import Models
from engine.bench.peers.base import Peer, PeerError
from engine.bench.workload import Ask, Random, requests_of
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.simulate.calibrate import Calibration, Timed, calibrate, timed_steps
from engine.simulate.cost import Jittered
from engine.simulate.simulation import Simulation
from engine.trace.records import StepRecord

RATES = (6.0, 24.0, None)  # requests a second, None: all at once; so that idle and full steps are among them
FRESH = 40.0  # seconds; about a round of the scenarios that have this peer
SEED = 7_001  # not that of any scenario


class SimulationPeer(Peer):
    """Scheduler, cache and log of the engine; the clock is reckoned."""

    package: ClassVar[str] = "kvtheater"
    module: ClassVar[str] = "engine"

    def load(self, models: Models, model: str, dtype: str) -> None:
        self._models, self._name, self._dtype = models, model, dtype
        self._calibrations: dict[str, tuple[float, Calibration]] = {}

    def run(self, asks: list[Ask], sampling: SamplingParams, config: EngineConfig) -> Measurement:
        if any(ask.at_step for ask in asks) or sampling.num_sequences > 1:
            raise PeerError("the simulator takes requests by the clock, with one output each")
        model = self._models.engine_model(self._name, self._dtype, compiled=not config.enforce_eager)
        found = self._calibrated(model, config)
        work = EngineWork()
        simulation = Simulation(model.facts, config, Jittered(found.cost, found.ratios), keep_log=True)
        assert simulation.log is not None
        simulation.log.subscribe(lambda record: work.add(record, 0.0) if record.kind == "step" else None)
        outcome = simulation.run(asks)
        simulation.close()
        return Measurement(
            seconds=outcome.seconds,
            requests=[
                RequestTimes(one.arrived, one.tokens, ask.late) for one, ask in zip(outcome.requests, asks, strict=True)
            ],
            outputs=[[one.token_ids] for one in outcome.requests],
            work=work,
        )

    def _calibrated(self, model: LoadedModel, config: EngineConfig) -> Calibration:
        """Of a run with these settings in a pool with room for all: what a step takes does not depend on the pool."""
        key = msgspec.json.encode(config.as_map()).decode()
        before = self._calibrations.get(key)
        if before is None or time.monotonic() - before[0] > FRESH:
            roomy = msgspec.structs.replace(config, num_blocks=None, max_model_len=None)
            found = measured(model, roomy)
            self._calibrations[key] = before = time.monotonic(), found
        return before[1]


def measured(model: LoadedModel, config: EngineConfig) -> Calibration:
    """Step times of this machine: those of runs that are made now, of the kind that will be reckoned."""
    records = list[StepRecord]()

    def listen(engine: Engine) -> None:
        assert engine.log is not None
        records.clear()
        engine.log.subscribe(records.append)

    steps = list[Timed]()
    greedy = SamplingParams(ignore_eos=True)
    for number, rate in enumerate((None, *RATES)):
        requests = Random(num_requests=48, prompt_tokens=(8, 200), output_tokens=(8, 96), rate=rate)
        asks = requests_of(requests, model.facts.vocab_size, SEED + number)
        run_engine(model, config, asks, greedy, observer="log", on_engine=listen)
        if number:  # the first warms up
            steps += timed_steps(records)
    return calibrate(steps, "step times of this machine")
