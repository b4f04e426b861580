"""Tokens that fit into an instance's cache: memory available by `size.Cost` / bytes per token."""

from __future__ import annotations

import functools

from msgspec.structs import replace

from engine.accounting.kv_shape import Architecture
from engine.accounting.memory import stored_element
from engine.accounting.presets import GpuPreset, ModelPreset
from engine.accounting.size import Cost, Load, Stored


def room_tokens(
    model: ModelPreset,
    gpu: GpuPreset,
    tensor_parallel: int = 1,
    stages: int = 1,
    max_num_batched_tokens: int = Load().max_num_batched_tokens,
    kv_cache_dtype: str = "auto",
) -> int:
    """Return the tokens whose KV fits on `tensor_parallel` × `stages` GPUs with equal stages; 0: the weights leave no
    memory. Weights are stored as in the checkpoint.

    The embedding and the output projection also count as divided among stages.

    Raises:
        ImpossibleInput: the model's heads cannot be divided among the GPUs.
    """
    element, scales = (model.element_bytes, 0) if kv_cache_dtype == "auto" else stored_element(kv_cache_dtype)
    stored = Stored(weights=model.shipped, element=element, scales=scales)
    load = Load(tensor_parallel=tensor_parallel, max_num_batched_tokens=max_num_batched_tokens)
    return _room(_stage(model.architecture, stages), stored, load, gpu.room_bytes)


@functools.lru_cache(maxsize=1 << 12)  # a search repeats the same instances for each kind and each rate
def _room(model: Architecture, stored: Stored, load: Load, memory_bytes: int) -> int:
    cost = Cost(model, stored, load)
    token = cost.cache.token
    assert token is not None, "all presets with measured layers cache each token"
    return max(0, int(cost.on(memory_bytes)[0].value // token.value))


def _stage(model: Architecture, stages: int) -> Architecture:
    """Return one of `stages` equal stages of the model."""
    shapes = tuple(replace(shape, num_layers=-(-shape.num_layers // stages)) for shape in model.shapes)
    return replace(model, shapes=shapes, num_params=-(-model.num_params // stages))
