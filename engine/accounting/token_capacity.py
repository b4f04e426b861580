"""Number of tokens that fit into an instance's cache: available memory (`size.Cost`) / bytes per token."""

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
    """Return the number of tokens whose KV fits on `tensor_parallel` × `stages` GPUs; 0 if the weights leave no memory.

    Weights are stored as in the checkpoint. All weights, including embedding and output projection, are divided equally
    among the stages.

    Raises:
        ImpossibleInput: the GPUs do not divide the model's heads.
    """
    element, scales = (model.element_bytes, 0) if kv_cache_dtype == "auto" else stored_element(kv_cache_dtype)
    stored = Stored(weights=model.shipped, element=element, scales=scales)
    load = Load(tensor_parallel=tensor_parallel, max_num_batched_tokens=max_num_batched_tokens)
    return _room(_stage(model.architecture, stages), stored, load, gpu.room_bytes)


@functools.lru_cache(maxsize=1 << 12)  # searches repeat the same instances for each kind and rate
def _room(model: Architecture, stored: Stored, load: Load, memory_bytes: int) -> int:
    cost = Cost(model, stored, load)
    token = cost.cache.token
    assert token is not None, "all presets with measured layers cache each token"
    return max(0, int(cost.capacity(memory_bytes)[0].value // token.value))


def _stage(model: Architecture, stages: int) -> Architecture:
    """Return one of `stages` equal stages of the model."""
    shapes = tuple(replace(shape, num_layers=-(-shape.num_layers // stages)) for shape in model.shapes)
    return replace(model, shapes=shapes, num_params=-(-model.num_params // stages))
