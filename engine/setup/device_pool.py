"""Pool size on a GPU if `num_blocks` is None: a share of the memory, minus weights and activations."""

from __future__ import annotations

from msgspec.structs import replace

from engine.accounting.memory import stored_bytes_per_token
from engine.config import MAX_POOL_SLOTS, MAX_SERVED_BLOCKS, ConfigError, EngineConfig
from engine.model import device
from engine.model.batch import SequenceSlice
from engine.model.loaded import LoadedModel
from engine.model.runner import ModelRunner
from engine.options.refusal import sentence
from engine.setup.pool_size import MIN_BLOCKS, num_blocks_that_fit
from engine.trace.limits import MAX_BLOCKS


def with_pool(config: EngineConfig, model: LoadedModel) -> EngineConfig:
    """Return the settings with `num_blocks` filled in, if it is None and the device has its own memory.

    Weights must be loaded. The peak of a step of `max_num_batched_tokens` tokens is measured by running one. On a CPU
    the settings are not changed: there the pool size depends only on the model (engine/setup/pool_size.py), so that the
    same settings give the same log on every machine.

    Raises:
        ConfigError: there is not enough memory for a pool.
    """
    if config.num_blocks is not None or config.by_sequence or not device.ALLOCATOR.has_own_memory(model.device):
        return config
    peak = device.ALLOCATOR.peak(model.device, lambda: _largest_step(config, model))
    memory = device.ALLOCATOR.memory(model.device)
    each = stored_bytes_per_token(model.facts, config.kv_cache_dtype) * config.block_size
    fitting = num_blocks_that_fit(memory.free, memory.total, config.gpu_memory_utilization, peak, each)
    if fitting < MIN_BLOCKS:
        sizes = {"total": memory.total, "each": each, "taken": memory.total - memory.free, "peak": peak}
        shown = {name: device.size(size) for name, size in sizes.items()}
        raise ConfigError(sentence("device_pool", share=config.gpu_memory_utilization, n=fitting, **shown))
    groups = len(set(model.facts.sliding_windows)) + (config.policy is not None)  # upper bound; each has its own blocks
    limit = min(MAX_SERVED_BLOCKS, MAX_POOL_SLOTS // config.block_size, MAX_BLOCKS // groups)
    return replace(config, num_blocks=min(fitting, limit))


def _largest_step(config: EngineConfig, model: LoadedModel) -> None:
    """Run a prefill of the full token budget, with the maximum number of sequences."""
    tokens, longest = config.max_num_batched_tokens, model.facts.max_position
    num_sequences = min(config.max_num_seqs, tokens)
    lengths = [min(tokens - num_sequences + 1, longest), *[1] * (num_sequences - 1)]
    size = config.block_size
    blocks = [-(-length // size) for length in lengths]
    runner = ModelRunner(model, sum(blocks), size, longest, config.kv_cache_dtype, policy=config.policy)
    slices, first = [], 0
    for index, (length, count) in enumerate(zip(lengths, blocks, strict=True)):
        slices.append(SequenceSlice(index, [0] * length, 0, [list(range(first, first + count))], True))
        first += count
    runner.execute(slices)
