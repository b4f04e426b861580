"""Error of the roofline against layers measured on a GPU: the error of a prediction for that GPU.

Measured is the time of a layer's matrices, norms and activations at n tokens on one GPU of a tensor-parallel group. The
bound of its matrices is max(2 · n · p / P, 2 B · p / W) for p parameters on that GPU. Both leave out attention, the
output projection and host time between steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from engine.accounting.presets import GpuPreset, Presets
from engine.accounting.work import layer_params
from engine.bench.prediction_error import PredictionError, StepPoint
from engine.trace.records import Phase

FEW, MANY = 16, 2048  # steps of at most FEW tokens are memory-bound, of at least MANY compute-bound
BETWEEN = 256  # maximum tokens of decode steps, minimum of prefill steps


class MeasuredLayer(NamedTuple):
    """Measured layer: measured and roofline seconds by the tokens of a step."""

    name: str
    seconds: dict[int, tuple[float, float]]

    def times(self, low: int, high: int) -> list[float]:
        """Return measured / bound for steps of `low` to `high` tokens."""
        return [measured / bound for tokens, (measured, bound) in self.seconds.items() if low <= tokens <= high]


def measured_layers(gpu: GpuPreset, known: Presets) -> list[MeasuredLayer]:
    """Return the layers measured on this GPU, without those scaled from other measurements."""
    found = []
    for one in known.layers:
        model = known.models.get(one.model)
        if one.gpu != gpu.id or one.layers_of or model is None or not model.is_counted:
            continue
        params = layer_params(model) / model.num_layers / one.tensor_parallel
        fast, wide = gpu.fp16_flops_per_second, gpu.bytes_per_second
        seconds = {
            tokens: (took / 1000, max(2 * tokens * params / fast, model.element_bytes * params / wide))
            for tokens, took in zip(one.tokens, one.milliseconds, strict=True)
        }
        found.append(MeasuredLayer(f"{model.name}, 1/{one.tensor_parallel}, {gpu.name}", seconds))
    return found


def layer_error(layers: Sequence[MeasuredLayer], phase: Phase) -> PredictionError | None:
    """Return the error over the step sizes of a phase (up to 256 tokens for decode, from 256 for prefill).

    Returns None if no layer was measured.
    """
    low, high = (1, BETWEEN) if phase == "decode" else (BETWEEN, max((max(one.seconds) for one in layers), default=0))
    points = [
        StepPoint(variant=one.name, tokens=tokens, measured=measured, low=measured, high=measured, predicted=bound)
        for one in layers
        for tokens, (measured, bound) in one.seconds.items()
        if low <= tokens <= high
    ]
    if not points:
        return None
    times = [point.measured / point.predicted for point in points]
    return PredictionError(phase=phase, points=points, median=median(times), least=min(times), most=max(times))


def ridge_factors(layers: Sequence[MeasuredLayer]) -> tuple[float, float] | None:
    """Return the smallest and the largest factor between measured and nominal ridge.

    Measured layers reach P / c operations and W / m bytes per second, so their ridge is P / W · m / c. Returns None if
    no layer was measured with both few and many tokens.
    """
    found = []
    for one in layers:
        moves, computes = one.times(1, FEW), one.times(MANY, max(one.seconds))
        if moves and computes:
            found.append(median(moves) / median(computes))
    return (min(found), max(found)) if found else None
