"""Default pool size on a CPU (for a GPU see device_pool.py): fits the model's context, and every block can be drawn."""

from __future__ import annotations

from engine.accounting.memory import bytes_per_weight, stored_bytes_per_token
from engine.trace.records import ModelFacts

DEFAULT_MIN_BLOCKS = 64  # minimum if memory suffices, since smaller pools are not instructive
MAX_DRAWN_BLOCKS = 256  # maximum number of blocks that a page of 1280 x 800 draws as squares with their content
MIN_BLOCKS = 16  # minimum in any case
SHARE = 8  # the pool takes at most 1 / SHARE of the weights' bytes,
MIN_BYTES, MAX_BYTES = 64 << 20, 1 << 30  # clamped to these bounds


def slots_that_fit(facts: ModelFacts, kv_cache_dtype: str = "auto") -> int:
    """Return the number of tokens that fit into the pool's memory: an eighth of the weights' bytes, clamped to 64 MiB
    to 1 GiB.

    It depends only on the model and not on free memory, so that the same settings give the same log everywhere.
    """
    weights = facts.num_params * bytes_per_weight(facts)
    share = min(max(weights / SHARE, MIN_BYTES), MAX_BYTES)
    return int(share // stored_bytes_per_token(facts, kv_cache_dtype))


def default_num_blocks(block_size: int, max_model_len: int, max_slots: int | None = None) -> int:
    """Return the number of blocks for a sequence of `max_model_len` tokens, clamped to 64..256, then to `max_slots`
    slots (None: unlimited), but at least 16 blocks.
    """
    blocks = min(max(-(-max_model_len // block_size), DEFAULT_MIN_BLOCKS), MAX_DRAWN_BLOCKS)
    return blocks if max_slots is None else max(min(blocks, max_slots // block_size), MIN_BLOCKS)


def num_blocks_that_fit(free: int, total: int, utilization: float, peak: int, bytes_per_block: int) -> int:
    """Return the number of blocks that fit into `utilization` of `total` bytes, minus used bytes and a step's peak."""
    return max(0, int(utilization * total) - (total - free) - peak) // bytes_per_block
