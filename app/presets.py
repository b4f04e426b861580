"""What the page offers to begin with: prompts that each show one thing."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Words(Struct, frozen=True):
    """A text in both languages."""

    en: str
    zh: str


class Preset(Struct, frozen=True, kw_only=True):
    """A scene: prompts to submit together, with the settings that make the point and a sentence on what to watch.

    `tests/unit/engine/test_strategies.py` runs each on the bundled model and holds it to its sentence.
    """

    id: str
    title: Words
    watch: Words
    prompts: list[str]
    sampling: dict[str, Any] = {}  # fields that differ from the defaults
    config: dict[str, Any] = {}  # likewise; needs a new log


_MOON = "春江潮水连海平，海上明月共潮生。"
_STORY = "Once upon a time, there was a little girl named Lily. She loved to play in the garden"

PRESETS = [
    Preset(
        id="moon",
        title=Words("A poem goes on", "续一首诗"),
        watch=Words(
            "Prefill computes the 16 tokens of the prompt at once; every step after it computes one token and "
            "reads all "
            "the keys before it.",
            "预填充一次算完提示词的 16 个词元；之后每一步只算一个词元，读取它之前的所有键。",
        ),
        prompts=[_MOON],
        sampling={"max_tokens": 48},
        config={"block_size": 4, "num_blocks": 48},
    ),
    Preset(
        id="story",
        title=Words("An English story", "一个英文故事"),
        watch=Words(
            "A word may be one token or several. Each token takes one slot, whatever its length.",
            "一个单词可能是一个词元，也可能是几个。不论长短，每个词元占一个槽位。",
        ),
        prompts=[_STORY],
        sampling={"max_tokens": 48},
        config={"block_size": 4, "num_blocks": 48},
    ),
    Preset(
        id="shared-prefix",
        title=Words("The same beginning twice", "相同的开头"),
        watch=Words(
            "Both prompts begin with the same 16 tokens. The second one finds those 4 blocks in the prefix "
            "cache, shares "
            "them (ref_count 2), and computes only the rest.",
            "两段提示词的前 16 个词元相同。第二段在前缀缓存里找到这 4 个块，与第一段共享（ref_count 为 2），"
            "只计算余下的词元。",
        ),
        prompts=[_MOON + "滟滟随波千万里，", _MOON + "江流宛转绕芳甸，"],
        sampling={"max_tokens": 24},
        config={"block_size": 4, "num_blocks": 48},
    ),
    Preset(
        id="samples",
        title=Words("Three samples of one prompt", "一段提示词，三个样本"),
        watch=Words(
            "The prompt is computed once and its blocks are shared by three samples. The last block is not full: "
            "the first "
            "to write into it gets a copy (copy-on-write).",
            "提示词只算一次，三个样本共享它的块。最后一块没有填满：先往里写的样本得到一份副本（写时复制）。",
        ),
        prompts=["白日依山尽，黄河入海流。欲穷"],
        sampling={"max_tokens": 24, "temperature": 0.9, "seed": 8, "n": 3},
        config={"block_size": 4, "num_blocks": 48},
    ),
    Preset(
        id="batch",
        title=Words("Four prompts, two places", "四段提示词，两个位置"),
        watch=Words(
            "Only two sequences may run at once. Each ends at its own full stop; whoever ends gives its blocks "
            "back, and the "
            "next one is computed beside the one that goes on decoding. None wastes more than 3 slots.",
            "同时只能运行两个序列，各自到句号为止。谁先结束就归还它的块，下一个随即补上，"
            "与仍在解码的那个同步计算。每个序列浪费的槽位不超过 3 个。",
        ),
        prompts=["白日依山尽，", _MOON + "滟滟随波千万里，", "床前明月光，", _STORY],
        sampling={"max_tokens": 32, "stop": ["。"]},
        config={"block_size": 4, "num_blocks": 48, "max_num_seqs": 2},
    ),
    Preset(
        id="chunks",
        title=Words("A long prompt in chunks", "长提示词分块预填充"),
        watch=Words(
            "A step may compute 16 tokens. The long prompt comes in chunks of what is left of them, while the "
            "poem gets its "
            "token in every step and never waits.",
            "每一步最多计算 16 个词元。长提示词用剩下的预算一块一块地算，而那首诗每一步都得到自己的词元，从不等待。",
        ),
        prompts=["床前明月光，", " ".join([_STORY + "."] * 4)],
        sampling={"max_tokens": 24},
        config={"block_size": 4, "num_blocks": 48, "max_num_batched_tokens": 16, "enable_chunked_prefill": True},
    ),
    Preset(
        id="preemption",
        title=Words("Too few blocks", "块不够用"),
        watch=Words(
            "Three sequences grow in a pool of 20 blocks. When none is free, the one admitted last gives its "
            "blocks back, "
            "waits, and is computed again later. Its text is the same as if it had never been interrupted.",
            "三个序列在 20 个块的池里增长。没有空闲块时，最后接纳的那个归还它的块，等待，之后重算。"
            "它的文本与从未被打断时相同。",
        ),
        prompts=[_MOON, "白日依山尽，黄河入海流。", "床前明月光，疑是地上霜。"],
        sampling={"max_tokens": 40, "ignore_eos": True},
        config={"block_size": 4, "num_blocks": 20},
    ),
    Preset(
        id="hybrid",
        title=Words("Two kinds of layers", "两种层"),
        watch=Words(
            "Layers 1 and 3 keep every key. Layers 0 and 2 see only the last 8 and have a pool of their own: while the "
            "poem grows they never hold more than 3 blocks. Gemma 3 and GPT-OSS are built so; this model was not "
            "trained for it, so its text may suffer.",
            "第 1、3 层保留所有的键；第 0、2 层只看最近 8 个，有自己的块池：诗越写越长，它们始终最多占 3 块。"
            "Gemma 3 和 GPT-OSS 就是这样构成的；这个模型没有为此训练过，文本可能变差。",
        ),
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
        title=Words("A long poem", "一首长诗"),
        watch=Words(
            "272 new tokens. Every step reads one key more than the last, a new block is taken every 16 steps, "
            "and never "
            "more than 15 slots lie empty.",
            "272 个新词元。每一步都比上一步多读一个键，每 16 步取一个新块，空着的槽位从不超过 15 个。",
        ),
        prompts=[_MOON],
        sampling={"max_tokens": 272, "ignore_eos": True},
        config={"block_size": 16, "num_blocks": 24},
    ),
]
