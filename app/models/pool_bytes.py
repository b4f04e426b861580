"""Memory of a run's blocks."""

from __future__ import annotations

from engine.accounting.memory import stored_bytes_per_token
from engine.config import EngineConfig
from engine.setup.resolve import resolve_for
from engine.speculate.build import draft_pool_bytes
from engine.trace.records import ModelFacts


def pool_bytes(config: EngineConfig, facts: ModelFacts) -> int:
    """Return the bytes of the pools of a run of these settings on this model, with the room that it swaps to.

    Raises:
        ConfigError: the settings cannot work with the model.
    """
    found = resolve_for(config, facts)
    per_token = stored_bytes_per_token(facts, found.config.kv_cache_dtype)
    each = (found.num_blocks + found.swap_space) * found.config.block_size * per_token
    full = found.config.max_num_seqs * found.max_model_len * per_token if found.config.forget_compare else 0
    return each * max(1, config.num_instances) + full + draft_pool_bytes(found.config)  # these two are beside the pool
