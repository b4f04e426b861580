"""Figures of queues, published benchmarks and placements. They do not depend on the run."""

from __future__ import annotations

from app.lessons.figures import FigureValue, figure
from app.lessons.questions import scale
from app.lessons.scene import Scene
from engine.simulate.degrees import goodput_per_gpu
from engine.simulate.queues import Prefill, mean_ttft


@figure
def crossing(scene: Scene, percent: int) -> FigureValue:
    """Return R · D at which two stages become as fast as two tensor-parallel GPUs with K = percent / 100."""
    return FigureValue(scale.crossing_of(percent))


@figure
def prefill_rate(scene: Scene, prompts: int, tokens: int) -> FigureValue:
    """Return the measured prompt tokens per second of steps with `prompts` prompts of `tokens` tokens."""
    return FigureValue(round(scale.rate_of(prompts, tokens)))


@figure
def per_gpu(scene: Scene, prefill: int, decode: int, prefill_gpus: int, decode_gpus: int) -> FigureValue:
    """Return the goodput per GPU if one GPU serves `prefill` tenths (or `decode` tenths) of a request per second."""
    found = goodput_per_gpu(prefill_gpus * prefill / 10, prefill_gpus, decode_gpus * decode / 10, decode_gpus)
    return FigureValue(round(found, 2))


@figure
def placed_gpus(scene: Scene, way: str, rate: int, prompt: int, output: int, ttft: int, tpot: int) -> FigureValue:
    """Return the GPUs of a placement of Llama 2 70B on A100s."""
    return FigureValue(scale.placed(way, rate, prompt, output, ttft, tpot).gpus)


@figure
def ttft_of(scene: Scene, percent: int) -> FigureValue:
    """Return the mean TTFT of one GPU at a load in percent, in service times, by the formula for M/D/1."""
    return FigureValue(round(mean_ttft(Prefill(service=1.0), "one", percent / 100).value, 2))


@figure
def simulated_low(scene: Scene, percent: int) -> FigureValue:
    """Return the lower end of the interval of the simulated mean TTFT, in service times."""
    return FigureValue(scale.simulated_wait(percent)[0])


@figure
def simulated_high(scene: Scene, percent: int) -> FigureValue:
    """Return the upper end of the interval of the simulated mean TTFT, in service times."""
    return FigureValue(scale.simulated_wait(percent)[1])
