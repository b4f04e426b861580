"""The simulator, as a peer of the engine that it stands for: the same requests, without a model.

Its step times are those of this machine, from a run of the engine on other requests, before the first round.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.bench.measurement import EngineWork, Measurement, RequestTimes
from engine.bench.models import Models
from engine.bench.peers.base import Peer, PeerError
from engine.bench.workload import Ask, Random, requests_of
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.request_spec import RequestSpec
from engine.simulate.calibrate import Calibration, calibrate, timed_steps
from engine.simulate.cost import Jittered
from engine.simulate.simulation import Simulation

# bursts of prompts of all lengths, and batches of all sizes: what a run may meet
CALIBRATION = Random(num_requests=96, prompt_tokens=(8, 200), output_tokens=(8, 96))
SEED = 20_240_601  # not that of any scenario


class SimulationPeer(Peer):
    """Scheduler, cache and log of the engine; the clock is reckoned."""

    package: ClassVar[str] = "kvtheater"
    module: ClassVar[str] = "engine"

    def load(self, models: Models, model: str, dtype: str) -> None:
        self._models, self._name, self._dtype = models, model, dtype
        self._calibrations: dict[str, Calibration] = {}

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
        if key not in self._calibrations:
            roomy = msgspec.structs.replace(config, num_blocks=None, max_model_len=None)
            self._calibrations[key] = measured(model, roomy)
        return self._calibrations[key]


def measured(model: LoadedModel, config: EngineConfig) -> Calibration:
    """Step times of this machine: those of a run that is made now."""
    asks = requests_of(CALIBRATION, model.facts.vocab_size, SEED)
    with Engine(model, config) as engine:
        assert engine.log is not None
        for _ in range(2):  # the first warms up
            first = len(engine.log)
            for number, ask in enumerate(asks):
                sampling = SamplingParams(max_tokens=ask.output_tokens, ignore_eos=True)
                engine.add_requests([RequestSpec(ask.prompt, sampling, cache_salt=f"{first}/{number}")])
                if number % 3 == 0:
                    engine.step()
            while engine.has_unfinished():
                engine.step()
        records = [engine.log.record(i) for i in range(first, len(engine.log))]
    return calibrate(timed_steps(records), "step times of this machine")
