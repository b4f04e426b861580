"""Calibration of step times from a log that was generated with known ones."""

import numpy as np
import pytest

from engine.config import EngineConfig
from engine.simulate.calibrate import CalibrationError, calibrate, timed_steps
from engine.simulate.cost import Jittered, Linear, StepShape, knots_up_to
from engine.simulate.outcome import SimulatedRequest
from engine.simulate.simulation import Simulation
from engine.trace.records import StepRecord
from tests.unit.engine.runs import tiny_llama

TRUE = Linear([1, 16, 64], [0.002, 0.004, 0.01], 1e-4, 2e-6, 1e-7, "given", 3e-4)


def _log_of(seed: int) -> list[StepRecord]:
    draw = np.random.default_rng(seed)
    at = np.cumsum(draw.exponential(0.1, 60))
    requests = [_request(draw, t) for t in at.tolist()]
    config = EngineConfig(block_size=4, num_blocks=256, max_num_batched_tokens=64, enable_prefix_caching=False)
    simulation = Simulation(tiny_llama().facts, config, TRUE)
    simulation.run(requests)
    assert simulation.log is not None
    records = [simulation.log.record(i) for i in range(len(simulation.log))]
    simulation.close()
    return records


def _request(draw: np.random.Generator, at: float) -> SimulatedRequest:
    return SimulatedRequest(draw.integers(0, 90, int(draw.integers(1, 40))).tolist(), int(draw.integers(2, 20)), at)


def test_calibration_recovers_the_step_times() -> None:
    found = calibrate(timed_steps(_log_of(1)), "again")
    assert found.median_error < 0.02
    for shape in (StepShape(1, 1, 30, 0), StepShape(5, 5, 150, 0), StepShape(30, 2, 60, 400, True)):
        assert found.cost.seconds(shape) == pytest.approx(TRUE.seconds(shape), rel=0.05)


def test_waiting_for_requests_does_not_count_as_step_time() -> None:
    longest = max(step.seconds for step in timed_steps(_log_of(2)))
    assert longest < 0.05 < 0.3, "gaps between arrivals are 0.1 s on average"


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(CalibrationError, match="at least"):
        calibrate(timed_steps(_log_of(3))[:5], "few")


def test_a_jittered_cost_has_the_same_mean_and_is_seeded() -> None:
    shape = StepShape(4, 4, 100, 0)
    one, other = (Jittered(TRUE, [0.5, 1.0, 1.5], seed=4) for _ in range(2))
    drawn = [one.seconds(shape) for _ in range(3000)]
    assert drawn == [other.seconds(shape) for _ in range(3000)]
    assert np.mean(drawn) == pytest.approx(TRUE.seconds(shape), rel=0.03)


def test_knots_cover_the_observed_range() -> None:
    assert knots_up_to(1) == [1, 2]
    assert knots_up_to(100) == [1, 2, 4, 8, 16, 32, 64, 128]
