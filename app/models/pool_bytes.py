"""Memory of a run's blocks."""

from __future__ import annotations

from engine.accounting.memory import stored_bytes_per_token
from engine.config import EngineConfig
from engine.setup.resolve import resolve_for
from engine.speculate.draft_pool import BLOCK_SIZE, draft_pool
from engine.trace.records import ModelFacts


def pool_bytes(config: EngineConfig, facts: ModelFacts) -> int:
    """Return the bytes of the pools of a run of these settings on this model, with the room that it swaps to.

    Raises:
        ConfigError: the settings cannot work with the model.
    """
    return sum(pool_parts(config, facts).values())


def pool_parts(config: EngineConfig, facts: ModelFacts) -> dict[str, int]:
    """Return those bytes by what takes them, in words: the pool first, then what lies beside it.

    Raises:
        ConfigError: the settings cannot work with the model.
    """
    found = resolve_for(config, facts)
    per_token, size = stored_bytes_per_token(facts, found.config.kv_cache_dtype), found.config.block_size
    instances = max(1, config.num_instances)
    each = f" in each of {instances} instances" if instances > 1 else ""
    swap = f" and {found.swap_space} more to swap to" if found.swap_space else ""
    parts = {
        f"a pool of {found.num_blocks} blocks of {size} slots{swap}{each}": instances
        * (found.num_blocks + found.swap_space)
        * size
        * per_token
    }
    if found.config.forget_compare:
        parts["the full cache to compare with"] = found.config.max_num_seqs * found.max_model_len * per_token
    num_blocks, num_bytes = draft_pool(found.config)
    if num_blocks:
        parts[f"the draft model's pool of {num_blocks} blocks of {BLOCK_SIZE} slots"] = num_bytes
    return parts
