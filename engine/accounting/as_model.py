"""Memory of a run's tokens in other models, for each preset."""

from __future__ import annotations

import functools

import msgspec
from msgspec import Struct

from engine.accounting.impossible import ImpossibleInput
from engine.accounting.presets import COUNTED, GpuPreset, ModelPreset, gpu_presets, model_presets
from engine.accounting.size import Cost, Load, Stored
from engine.accounting.token_capacity import room_tokens

CARD = "a100-80gb"
DEGREES = (1, 2, 4, 8, 16, 32)  # tensor-parallel sizes


class Fit(Struct, frozen=True, kw_only=True):
    """Smallest number of GPUs that hold the weights, and the number of tokens that then fit into the cache."""

    card: str
    gpus: int
    tokens: int


@functools.cache
def preset_payload() -> list[dict[str, object]]:
    """Return the models with identical layers, each with its bytes per token, weights and `Fit`."""
    uniform = [preset for preset in model_presets() if len(preset.shapes) == 1]
    return [
        {**_preset_fields(one), "kv_bytes_per_token": one.kv_bytes_per_token, **_size_payload(one)} for one in uniform
    ]


def fit(model: ModelPreset, card: GpuPreset) -> Fit | None:
    """Return the fit of a model on a card, or None if its weights fit on none of DEGREES."""
    for gpus in DEGREES:
        try:
            tokens = room_tokens(model, card, gpus)
        except ImpossibleInput:
            continue  # this number of GPUs does not divide the heads
        if tokens:
            return Fit(card=card.name, gpus=gpus, tokens=tokens)
    return None


def _size_payload(model: ModelPreset) -> dict[str, object]:
    stored = Stored(weights=model.shipped, element=model.element_bytes)
    card = next(one for one in gpu_presets() if one.id == CARD)
    weights = Cost(model.architecture, stored, Load()).weights.value
    return {"weights_bytes": int(weights), "fit": msgspec.to_builtins(fit(model, card))}


def _preset_fields(preset: ModelPreset) -> dict[str, object]:
    source = preset.source_of("num_layers")
    fields = {name: value for name, value in msgspec.to_builtins(preset).items() if name not in COUNTED}
    return {**fields, "source": source.says, "dated": msgspec.to_builtins(source.dated)}
