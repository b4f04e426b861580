"""Settings that explain why a request waits, and the pool size."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Settings(Struct, frozen=True, kw_only=True):
    """Settings, by the names shared with vLLM. `num_blocks`: without vLLM's null block."""

    block_size: int
    num_blocks: int
    kv_bytes_per_token: int
    max_num_seqs: int
    max_num_batched_tokens: int
    enable_prefix_caching: bool
    enable_chunked_prefill: bool
    scheduler_reserve_full_isl: bool
    scheduling_policy: Literal["fcfs", "priority"]
