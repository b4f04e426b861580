"""Default pool size on a CPU: large enough for the model's context, small enough to be drawn block by block. On a GPU
see engine/setup/device_pool.py.
"""

from __future__ import annotations

from engine.accounting.memory import bytes_per_weight, stored_bytes_per_token
from engine.trace.records import ModelFacts

USUAL = 64  # minimum blocks if memory allows: smaller pools are not instructive
DRAWN = 256  # maximum blocks that a page of 1280 x 800 shows as squares with their filling
FEWEST = 16  # minimum blocks
SHARE = 8  # the pool takes at most 1 / SHARE of the weights' bytes,
LEAST_BYTES, MAX_BYTES = 64 << 20, 1 << 30  # clamped to these bounds


def slots_that_fit(facts: ModelFacts, kv_cache_dtype: str = "auto") -> int:
    """Return the tokens that fit into the pool's memory: an eighth of the weights' bytes, between 64 MiB and 1 GiB.

    It depends on the model alone, not on free memory: the same settings give the same log everywhere.
    """
    weights = facts.num_params * bytes_per_weight(facts)
    share = min(max(weights / SHARE, LEAST_BYTES), MAX_BYTES)
    return int(share // stored_bytes_per_token(facts, kv_cache_dtype))


def default_num_blocks(block_size: int, max_model_len: int, most_slots: int | None = None) -> int:
    """Return the number of blocks for a sequence of `max_model_len` tokens, clamped to 64..256, then to `most_slots`
    slots (None: unlimited), but at least 16 blocks.
    """
    blocks = min(max(-(-max_model_len // block_size), USUAL), DRAWN)
    return blocks if most_slots is None else max(min(blocks, most_slots // block_size), FEWEST)


def num_blocks_that_fit(free: int, total: int, utilization: float, peak: int, bytes_per_block: int) -> int:
    """Return the number of blocks that fit into a device's memory: `utilization` of its `total` bytes, without used
    bytes and a step's peak. At least 0.
    """
    return max(0, int(utilization * total) - (total - free) - peak) // bytes_per_block
