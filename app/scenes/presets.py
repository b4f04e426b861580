"""What the page offers to begin with: prompts that each show one thing."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Preset(Struct, frozen=True, kw_only=True):
    """Prompts to submit together, with the settings that make the point. Its words: `title`, and `watch`, a sentence.

    `tests/unit/engine/test_strategies.py` runs each on the bundled model and holds it to its sentence.
    """

    id: str
    prompts: list[str]
    sampling: dict[str, Any] = {}  # fields that differ from the defaults
    config: dict[str, Any] = {}  # likewise; needs a new log


_MOON = "春江潮水连海平，海上明月共潮生。"
_STORY = "Once upon a time, there was a little girl named Lily. She loved to play in the garden"

PRESETS = [
    Preset(
        id="moon",
        prompts=[_MOON],
        sampling={"max_tokens": 48},
        config={"block_size": 4, "num_blocks": 48},
    ),
    Preset(
        id="story",
        prompts=[_STORY],
        sampling={"max_tokens": 48},
        config={"block_size": 4, "num_blocks": 48},
    ),
    Preset(
        id="shared-prefix",
        prompts=[_MOON + "滟滟随波千万里，", _MOON + "江流宛转绕芳甸，"],
        sampling={"max_tokens": 24},
        config={"block_size": 4, "num_blocks": 48},
    ),
    Preset(
        id="samples",
        prompts=["白日依山尽，黄河入海流。欲穷"],
        sampling={"max_tokens": 24, "temperature": 0.9, "seed": 8, "n": 3},
        config={"block_size": 4, "num_blocks": 48},
    ),
    Preset(
        id="batch",
        prompts=["白日依山尽，", _MOON + "滟滟随波千万里，", "床前明月光，", _STORY],
        sampling={"max_tokens": 32, "stop": ["。"]},
        config={"block_size": 4, "num_blocks": 48, "max_num_seqs": 2},
    ),
    Preset(
        id="chunks",
        prompts=["床前明月光，", " ".join([_STORY + "."] * 4)],
        sampling={"max_tokens": 24},
        config={"block_size": 4, "num_blocks": 48, "max_num_batched_tokens": 16, "enable_chunked_prefill": True},
    ),
    Preset(
        id="preemption",
        prompts=[_MOON, "白日依山尽，黄河入海流。", "床前明月光，疑是地上霜。"],
        sampling={"max_tokens": 40, "ignore_eos": True},
        config={"block_size": 4, "num_blocks": 20},
    ),
    Preset(
        id="hybrid",
        prompts=[_MOON],
        sampling={"max_tokens": 40, "ignore_eos": True},
        config={
            "block_size": 4,
            "num_blocks": 24,
            "max_num_seqs": 1,
            "max_num_batched_tokens": 16,
            "attention_window": 8,
            "sliding_window_pattern": 2,
        },
    ),
    Preset(
        id="long",
        prompts=[_MOON],
        sampling={"max_tokens": 272, "ignore_eos": True},
        config={"block_size": 16, "num_blocks": 24},
    ),
]
