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
    """Fewest GPUs that hold the weights, and the tokens that then fit into the cache."""

    card: str
    gpus: int
    tokens: int


@functools.cache
def preset_payload() -> list[dict[str, object]]:
    """Return the models with identical layers: formula of K and V, bytes per token, weights, and fits."""
    alike = [preset for preset in model_presets() if len(preset.shapes) == 1]
    return [{**_shown(one), "kv_bytes_per_token": one.kv_bytes_per_token, **_beside(one)} for one in alike]


def fit(model: ModelPreset, card: GpuPreset) -> Fit | None:
    """Return None if the weights fit on none of DEGREES."""
    for gpus in DEGREES:
        try:
            tokens = room_tokens(model, card, gpus)
        except ImpossibleInput:
            continue  # the heads cannot be divided
        if tokens:
            return Fit(card=card.name, gpus=gpus, tokens=tokens)
    return None


def _beside(model: ModelPreset) -> dict[str, object]:
    stored = Stored(weights=model.shipped, element=model.element_bytes)
    card = next(one for one in gpu_presets() if one.id == CARD)
    weights = Cost(model.architecture, stored, Load()).weights.value
    return {"weights_bytes": int(weights), "fit": msgspec.to_builtins(fit(model, card))}


def _shown(preset: ModelPreset) -> dict[str, object]:
    stands = preset.source_of("num_layers")
    given = {name: value for name, value in msgspec.to_builtins(preset).items() if name not in COUNTED}
    return {**given, "source": stands.says, "dated": msgspec.to_builtins(stands.dated)}
