"""Exhibits of the page's fault museum: for each fault of the engine, requests that reveal it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from engine.config import EngineConfig, FaultName


class Exhibit(Struct, frozen=True, kw_only=True):
    """Fault, and settings of the requests that are submitted at once to a healthy and a faulty engine.

    Its texts are `title`, `text` (the fault), `watch` (its visible effect) and `prompts`.
    """

    id: FaultName
    sampling: dict[str, Any]
    config: dict[str, Any]  # every field but `fault`, so that the exhibit does not depend on the server's options


def _config(**fields: Any) -> dict[str, Any]:
    config = asdict(EngineConfig(**fields))
    del config["fault"]
    return config


EXHIBITS = [
    Exhibit(
        id="slot_off_by_one",
        sampling={"max_tokens": 24, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=32),
    ),
    Exhibit(
        id="no_copy_at_shared_write",
        sampling={"max_tokens": 16, "ignore_eos": True, "n": 2, "temperature": 1.2, "seed": 1},
        config=_config(block_size=4, num_blocks=32),
    ),
    Exhibit(
        id="stale_hash_after_reallocation",
        sampling={"max_tokens": 16, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=10, max_num_seqs=1),
    ),
    Exhibit(
        id="output_lost_at_preemption",
        sampling={"max_tokens": 32, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=18),
    ),
    Exhibit(
        id="missing_causal_mask",
        sampling={"max_tokens": 24, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=32),
    ),
    Exhibit(
        id="rope_restarted_at_chunk",
        sampling={"max_tokens": 24, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=32, max_num_batched_tokens=12),
    ),
    Exhibit(
        id="read_after_release",
        sampling={"max_tokens": 20, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=10, max_num_seqs=1, prefill=1, decode=1, routing_policy="round_robin"),
    ),
]
