"""Figures of queues, published benchmarks and placements, independent of a run."""

from __future__ import annotations

from app.lessons.figures import Found, figure
from app.lessons.questions import scale
from app.lessons.scene import Scene
from engine.simulate.degrees import goodput_per_gpu
from engine.simulate.queues import Prefill, mean_ttft


@figure
def crossing(scene: Scene, percent: int) -> Found:
    """Return R · D at which two stages become as fast as two tensor-parallel GPUs with K = percent / 100."""
    return Found(scale.crossing_of(percent))


@figure
def prefill_rate(scene: Scene, prompts: int, tokens: int) -> Found:
    """Return the measured prompt tokens per second for that many prompts of that length per step."""
    return Found(round(scale.rate_of(prompts, tokens)))


@figure
def per_gpu(scene: Scene, prefill: int, decode: int, prefill_gpus: int, decode_gpus: int) -> Found:
    """Return the goodput per GPU, if one GPU serves `prefill` and `decode` tenths of a request per second."""
    found = goodput_per_gpu(prefill_gpus * prefill / 10, prefill_gpus, decode_gpus * decode / 10, decode_gpus)
    return Found(round(found, 2))


@figure
def placed_gpus(scene: Scene, way: str, rate: int, prompt: int, output: int, ttft: int, tpot: int) -> Found:
    """Return the GPUs of a placement of Llama 2 70B on A100s."""
    return Found(scale.placed(way, rate, prompt, output, ttft, tpot).gpus)


@figure
def ttft_of(scene: Scene, percent: int) -> Found:
    """Return the mean TTFT of one GPU at that load, in service times, by the formula."""
    return Found(round(mean_ttft(Prefill(service=1.0), "one", percent / 100).value, 2))


@figure
def simulated_low(scene: Scene, percent: int) -> Found:
    """Return the lower end of the interval of the simulated mean TTFT, in service times."""
    return Found(scale.simulated_wait(percent)[0])


@figure
def simulated_high(scene: Scene, percent: int) -> Found:
    """Return its upper end."""
    return Found(scale.simulated_wait(percent)[1])
