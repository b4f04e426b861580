"""Size of a run's pools."""

from __future__ import annotations

from engine.accounting.memory import stored_bytes_per_token
from engine.config import EngineConfig
from engine.options.refusal import sentence
from engine.setup.resolve import resolve_for
from engine.speculate.draft_pool import BLOCK_SIZE, draft_pool
from engine.trace.records import ModelFacts


def pool_bytes(config: EngineConfig, facts: ModelFacts) -> int:
    """Return the bytes of a run's pools with these settings on this model, including its CPU swap space.

    Raises:
        ConfigError: the settings do not work with the model.
    """
    return sum(pool_parts(config, facts).values())


def pool_parts(config: EngineConfig, facts: ModelFacts) -> dict[str, int]:
    """Return the parts of `pool_bytes` by their descriptions, the block pool first.

    Raises:
        ConfigError: the settings do not work with the model.
    """
    found = resolve_for(config, facts)
    per_token, size = stored_bytes_per_token(facts, found.config.kv_cache_dtype), found.config.block_size
    instances = max(1, config.num_instances)
    each = sentence("pool.each", n=instances) if instances > 1 else ""
    swap = sentence("pool.swap", n=found.swap_space) if found.swap_space else ""
    pool = sentence("pool.main", blocks=found.num_blocks, size=size, swap=swap, each=each)
    parts: dict[str, int] = {pool: instances * (found.num_blocks + found.swap_space) * size * per_token}
    if found.config.forget_compare:
        parts[sentence("pool.compare")] = found.config.max_num_seqs * found.max_model_len * per_token
    num_blocks, num_bytes = draft_pool(found.config)
    if num_blocks:
        parts[sentence("pool.draft", blocks=num_blocks, size=BLOCK_SIZE)] = num_bytes
    return parts
