"""Errors of predicted step times, from layers measured on GPUs, or from a record of this machine."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict

from engine.accounting.presets import GpuPreset, Presets
from engine.accounting.roofline_steps import Roof
from engine.bench.layer_error import MeasuredLayer, layer_error, measured_layers, ridge_factors
from engine.bench.prediction_error import PredictionError, prediction_error
from engine.bench.record import Record
from engine.trace.records import Phase


class ErrorSource(TypedDict):
    """Source of the errors: steps of a benchmark record on a CPU (`record`), layers measured on this GPU (`card`), or
    layers measured on other GPUs (`cards`). `on`: names of the processors.
    """

    kind: Literal["record", "card", "cards"]
    on: str


class MeasuredOn(NamedTuple):
    """Measured layers of a GPU, or of all other GPUs if it has none. `on`: names of the GPUs."""

    layers: list[MeasuredLayer]
    on: str
    is_own: bool


def measured_on(card: GpuPreset, known: Presets) -> MeasuredOn | None:
    """Return the measured layers for a GPU; None if there are none."""
    own = measured_layers(card, known)
    cards = [card] if own else known.timed_gpus
    layers = own or [layer for other in cards for layer in measured_layers(other, known)]
    return MeasuredOn(layers, ", ".join(one.name for one in cards), bool(own)) if layers else None


def errors_of(
    measured: MeasuredOn | None, step_time: Record | None
) -> tuple[dict[Phase, PredictionError | None], ErrorSource | None]:
    """Return the errors by phase and their source: the GPU's layers, or the `step-time` record of this machine."""
    phases: tuple[Phase, ...] = ("prefill", "decode")
    if measured is not None:
        source: ErrorSource = {"kind": "card" if measured.is_own else "cards", "on": measured.on}
        return {phase: layer_error(measured.layers, phase) for phase in phases}, source
    if step_time is None:
        return dict.fromkeys(phases), None
    on = step_time.environment.machine.processor
    return {phase: prediction_error(step_time, phase) for phase in phases}, {"kind": "record", "on": on}


def reached_roofs(
    roof: Roof, measured: MeasuredOn | None, errors: dict[Phase, PredictionError | None]
) -> tuple[Roof, Roof] | None:
    """Return the roofs with the lowest and the highest measured ridge; None without a measurement."""
    factors = ridge_factors(measured.layers) if measured else None
    decode, prefill = errors["decode"], errors["prefill"]
    if factors is None and decode and prefill:  # errors of the bandwidth and of the FLOP rate
        factors = decode.least / prefill.most, decode.most / prefill.least
    if factors is None:
        return None
    low, high = (
        Roof(
            flops_per_second=roof.flops_per_second * factor, bytes_per_second=roof.bytes_per_second, source=roof.source
        )
        for factor in factors
    )
    return low, high
