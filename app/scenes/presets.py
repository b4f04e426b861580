"""Presets of the page: scenes, each of which demonstrates one thing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from engine.config import USUAL_DRAFTS

Panel = Literal["attention", "scheduler", "time"]


class Preset(Struct, frozen=True, kw_only=True):
    """Scene: settings of its run, the times of its prompts, and the part of the page to show.

    Its texts in `words.<language>.json` are `title`, `watch` (what to look for), `end` (one sentence with figures of
    the run, see `static/js/core/scene_figures.js`) and `prompts`, which have the same number and the same purpose in
    every language. `tests/unit/engine/test_strategies.py` runs each scene in every language and checks its texts.
    """

    id: str
    after_steps: list[Annotated[int, Meta(ge=0)]] = []  # steps before each prompt is submitted; empty: 0 for all
    sampling: dict[str, Any] = {}  # fields that differ from the defaults
    config: dict[str, Any] = {}  # fields that differ from the defaults; needs a new log
    model: str | None = None  # shipped model that the scene needs; None: any
    seq: int | None = 0  # sequence to show; None: the one being computed
    pattern: str | None = None  # attention pattern of the head to show; None: the model's default head
    detail: Panel = "attention"
    speed: float = 2.0  # steps a second


_SMALL = {"block_size": 4, "num_blocks": 48}

PRESETS = [
    Preset(id="moon", sampling={"max_tokens": 64}, config=_SMALL),
    Preset(id="tokens", sampling={"max_tokens": 32}, config=_SMALL),
    Preset(id="shared-prefix", after_steps=[0, 2], sampling={"max_tokens": 24}, config=_SMALL, seq=1, speed=1.0),
    Preset(
        id="day",
        after_steps=[0, 2, 4, 6],
        sampling={"max_tokens": 12, "ignore_eos": True},
        config=_SMALL,
        seq=3,
        detail="scheduler",
        speed=1.0,
    ),
    Preset(
        id="samples",
        sampling={"max_tokens": 24, "temperature": 0.8, "seed": 21, "n": 3},
        config=_SMALL,
        seq=1,
        detail="scheduler",
        speed=1.0,
    ),
    Preset(
        id="beams",
        sampling={"max_tokens": 12, "n": 3, "use_beam_search": True, "beam_width": 3, "ignore_eos": True},
        config=_SMALL,
        seq=None,
        detail="scheduler",
        speed=1.0,
    ),
    Preset(
        id="batch",
        sampling={"max_tokens": 96},
        config={**_SMALL, "max_num_seqs": 2},
        detail="scheduler",
        seq=None,
        speed=4.0,
    ),
    Preset(
        id="chunks",
        after_steps=[0, 3],
        sampling={"max_tokens": 24},
        config={**_SMALL, "max_num_batched_tokens": 16, "enable_chunked_prefill": True},
        detail="scheduler",
        seq=1,
        speed=1.0,
    ),
    Preset(
        id="preemption",
        sampling={"max_tokens": 40, "ignore_eos": True},
        config={"block_size": 4, "num_blocks": 20},
        detail="scheduler",
        seq=2,
    ),
    Preset(
        id="fragments",
        after_steps=[0, 8, 12],
        sampling={"max_tokens": 24, "ignore_eos": True},
        config={"strategy": "first_fit", "block_size": 4, "num_blocks": 24},
        detail="scheduler",
        seq=2,
    ),
    Preset(
        id="hybrid",
        sampling={"max_tokens": 40, "ignore_eos": True},
        config={
            "block_size": 4,
            "num_blocks": 24,
            "max_num_seqs": 1,
            "max_num_batched_tokens": 16,
            "attention_window": 8,
            "sliding_window_pattern": 2,
        },
        speed=4.0,
    ),
    Preset(
        id="state",
        sampling={"max_tokens": 64, "ignore_eos": True},
        config=_SMALL,
        model="bundled-hybrid",
        detail="time",
        speed=4.0,
    ),
    Preset(
        id="sinks",
        sampling={"max_tokens": 48, "ignore_eos": True},
        config={"block_size": 4, "num_blocks": 24, "attention_window": 16, "attention_sinks": 4},
        pattern="first_token",
        speed=4.0,
    ),
    Preset(
        id="guesses",
        sampling={"max_tokens": 64},
        config={**_SMALL, "speculative_config": USUAL_DRAFTS[0]},
        speed=1.0,
    ),
    Preset(id="int4", sampling={"max_tokens": 48}, config={**_SMALL, "kv_cache_dtype": "int4"}),
    Preset(
        id="long",
        sampling={"max_tokens": 272, "ignore_eos": True},
        config={"block_size": 16, "num_blocks": 24},
        detail="time",
        speed=16.0,
    ),
]
