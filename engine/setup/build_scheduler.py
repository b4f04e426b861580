"""Construction of the scheduler from an engine's settings."""

from __future__ import annotations

from collections.abc import Callable

from engine.config import EngineConfig
from engine.scheduling.cache_protocol import Cache
from engine.scheduling.connector_protocol import Connector
from engine.scheduling.scheduler import Scheduler
from engine.trace.operations import Op


def build_scheduler(
    config: EngineConfig, cache: Cache, emit: Callable[[Op], None], connector: Connector | None
) -> Scheduler:
    """Build a scheduler. `config`: the resolved settings of a live or a simulated engine."""
    return Scheduler(
        cache,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        enable_chunked_prefill=config.enable_chunked_prefill,
        reserve_full_isl=config.scheduler_reserve_full_isl,
        policy=config.scheduling_policy,
        recompute_all=config.strategy == "none",
        reserve_all=config.strategy == "first_fit",
        preemption_mode=config.preemption_mode,
        emit=emit,
        connector=connector,
    )
