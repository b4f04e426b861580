"""Default size of a pool: large enough for the model's context, small enough to be drawn; on a GPU the rest of a
share of its memory (engine/setup/device_pool.py).
"""

from __future__ import annotations

from engine.accounting.memory import bytes_per_weight, stored_bytes_per_token
from engine.trace.records import ModelFacts

USUAL = 64  # blocks, as far as there is memory: a pool of a few would teach nothing
DRAWN = 256  # blocks, of which a page of 1280 x 800 still shows each as a square with its filling
FEWEST = 16  # blocks, whatever a token takes
SHARE = 8  # the pool takes at most this part of what the weights take,
LEAST_BYTES, MAX_BYTES = 64 << 20, 1 << 30  # but never less than the one and never more than the other


def slots_that_fit(facts: ModelFacts, kv_cache_dtype: str = "auto") -> int:
    """Tokens that the pool's share of the memory holds: an eighth of the weights' bytes, between 64 MiB and 1 GiB.

    It follows from the model alone, not from what a machine has free: the same settings give the same log everywhere.
    """
    weights = facts.num_params * bytes_per_weight(facts)
    share = min(max(weights / SHARE, LEAST_BYTES), MAX_BYTES)
    return int(share // stored_bytes_per_token(facts, kv_cache_dtype))


def default_num_blocks(block_size: int, max_model_len: int, most_slots: int | None = None) -> int:
    """Return the number of blocks that hold a sequence of `max_model_len` tokens, but at least 64 and at most 256;
    then no more than `most_slots` slots (None: any number), but at least 16 blocks.
    """
    blocks = min(max(-(-max_model_len // block_size), USUAL), DRAWN)
    return blocks if most_slots is None else max(min(blocks, most_slots // block_size), FEWEST)


def num_blocks_that_fit(free: int, total: int, utilization: float, peak: int, bytes_per_block: int) -> int:
    """Return the number of blocks for which a device has room: `utilization` of its `total` bytes, without what is
    taken already and what a step takes at its peak. Never less than 0.
    """
    return max(0, int(utilization * total) - (total - free) - peak) // bytes_per_block
