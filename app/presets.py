"""What the page offers to begin with: strategies, and prompts that each show one thing."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Words(Struct, frozen=True):
    """A text in both languages."""

    en: str
    zh: str


class StrategyText(Struct, frozen=True, kw_only=True):
    """One value of `EngineConfig.strategy`, explained."""

    id: str
    title: Words
    text: Words


class Preset(Struct, frozen=True, kw_only=True):
    """Prompts to submit together, with the settings that make the point."""

    id: str
    title: Words
    prompts: list[str]
    sampling: dict[str, Any] = {}  # fields that differ from the defaults
    config: dict[str, Any] = {}  # likewise; needs a new log


STRATEGIES = [
    StrategyText(
        id="paged",
        title=Words("Paged KV cache", "分页 KV 缓存"),
        text=Words(
            "Blocks of block_size slots, taken from a pool as a sequence grows; full blocks can be shared.",
            "序列增长时才从块池里取块，每块 block_size 个槽；满块可以共享。",
        ),
    ),
    StrategyText(
        id="contiguous",
        title=Words("Contiguous reservation", "连续预留"),
        text=Words(
            "One reservation of max_model_len slots per sequence, whether it uses them or not.",
            "每个序列一次预留 max_model_len 个槽，不管用不用得上。",
        ),
    ),
    StrategyText(
        id="none",
        title=Words("No cache", "无缓存"),
        text=Words(
            "Nothing is kept: every step computes all keys and values of the sequence again.",
            "什么都不保留：每一步都重新计算序列的全部 K 和 V。",
        ),
    ),
]

_MOON = "春江潮水连海平，海上明月共潮生。"
_STORY = "Once upon a time, there was a little girl named Lily. She loved to play in the garden"

PRESETS = [
    Preset(
        id="moon",
        title=Words("A poem goes on: prefill, then one token a step", "续一首诗：先预填充，再逐个解码"),
        prompts=[_MOON],
        sampling={"max_tokens": 48},
    ),
    Preset(
        id="story",
        title=Words("An English story", "一个英文故事"),
        prompts=[_STORY],
        sampling={"max_tokens": 48},
    ),
    Preset(
        id="shared-prefix",
        title=Words("The same beginning twice: prefix-cache hits", "相同的开头：前缀缓存命中"),
        prompts=[_MOON + "滟滟随波千万里，", _MOON + "江流宛转绕芳甸，"],
        sampling={"max_tokens": 24},
        config={"block_size": 4},
    ),
    Preset(
        id="batch",
        title=Words("Four at once: continuous batching", "四个请求：连续批处理"),
        prompts=[_MOON, "床前明月光，", _STORY, "白日依山尽，"],
        sampling={"max_tokens": 32},
    ),
    Preset(
        id="chunks",
        title=Words("A long prompt in chunks beside a running one", "长提示分块预填充"),
        prompts=["床前明月光，", " ".join([_STORY + "."] * 4)],
        sampling={"max_tokens": 24},
        config={"max_num_batched_tokens": 16, "enable_chunked_prefill": True},
    ),
    Preset(
        id="preemption",
        title=Words("Too few blocks: somebody is preempted", "块不够用：发生抢占"),
        prompts=[_MOON, "白日依山尽，黄河入海流。", "床前明月光，疑是地上霜。"],
        sampling={"max_tokens": 40, "ignore_eos": True},
        config={"block_size": 4, "num_blocks": 20},
    ),
]
