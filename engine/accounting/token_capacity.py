"""Tokens that an instance holds beside its weights: what `size.Cost` leaves on a GPU, over a token's bytes there."""

from __future__ import annotations

import functools

from msgspec.structs import replace

from engine.accounting.kv_shape import Architecture
from engine.accounting.presets import GpuPreset, ModelPreset
from engine.accounting.size import Cost, Load, Stored


def room_tokens(
    model: ModelPreset,
    gpu: GpuPreset,
    tensor_parallel: int = 1,
    stages: int = 1,
    max_num_batched_tokens: int = Load().max_num_batched_tokens,
) -> int:
    """Tokens whose keys and values fit on `tensor_parallel` × `stages` GPUs, of which each stage has as many layers;
    0: the weights leave no room. Weights are as the checkpoint has them.

    The embedding and the output projection count as divided among the stages too.

    Raises:
        ImpossibleInput: the model's heads cannot be divided among the GPUs.
    """
    stored = Stored(weights=model.shipped, element=model.element_bytes)
    load = Load(tensor_parallel=tensor_parallel, max_num_batched_tokens=max_num_batched_tokens)
    return _room(_stage(model.architecture, stages), stored, load, gpu.room_bytes)


@functools.lru_cache(maxsize=1 << 12)  # a search asks for the same instance again for each kind and each rate
def _room(model: Architecture, stored: Stored, load: Load, memory_bytes: int) -> int:
    cost = Cost(model, stored, load)
    token = cost.kept.token
    assert token is not None, "all presets whose steps can be timed keep something of each token"
    return max(0, int(cost.on(memory_bytes)[0].value // token.value))


def _stage(model: Architecture, stages: int) -> Architecture:
    """Return one of `stages` equal stages of the model."""
    shapes = tuple(replace(shape, num_layers=-(-shape.num_layers // stages)) for shape in model.shapes)
    return replace(model, shapes=shapes, num_params=-(-model.num_params // stages))
