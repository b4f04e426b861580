"""Settings needed to explain why a request waits, and the pool's size."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Settings(Struct, frozen=True, kw_only=True):
    """By the names that vLLM and this project share. `num_blocks`: without the block that is never used."""

    block_size: int
    num_blocks: int
    kv_bytes_per_token: int
    max_num_seqs: int
    max_num_batched_tokens: int
    enable_prefix_caching: bool
    enable_chunked_prefill: bool
    scheduler_reserve_full_isl: bool
    scheduling_policy: Literal["fcfs", "priority"]
