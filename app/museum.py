"""The fault museum as the page offers it: for each fault of the engine, the requests that bring it to light."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from app.presets import Words
from engine.config import EngineConfig, FaultName

_MOON = "春江潮水连海平，海上明月共潮生。"
_MOUNTAIN = "白日依山尽，黄河入海流。欲穷千里目，"
_FROST = "床前明月光，疑是地上霜。"


class Exhibit(Struct, frozen=True, kw_only=True):
    """One fault: what is wrong, where it shows, and what to submit, all at once, to a healthy and a faulty engine."""

    id: FaultName
    title: Words
    text: Words  # the mistake
    watch: Words  # where it shows
    prompts: list[str]
    sampling: dict[str, Any]
    config: dict[str, Any]  # every field but `fault`: what is seen does not depend on how the server was started


def _config(**fields: Any) -> dict[str, Any]:
    config = asdict(EngineConfig(**fields))
    del config["fault"]
    return config


EXHIBITS = [
    Exhibit(
        id="slot_off_by_one",
        title=Words("One slot too far", "槽位差一"),
        text=Words(
            "K and V are written to the slot after the one that will be read.",
            "K 和 V 写进了该读槽位的下一个槽位。",
        ),
        watch=Words(
            "The first token is already another one: each query finds its neighbour's key. No count is wrong, so no "
            "check of the books can notice; only the comparison does.",
            "第一个词元就不一样：每个查询读到的都是邻居的键。所有计数都对，查账查不出来，只有对照才能发现。",
        ),
        prompts=[_MOON],
        sampling={"max_tokens": 24, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=32),
    ),
    Exhibit(
        id="no_copy_at_shared_write",
        title=Words("No copy at a shared write", "共享写入时没有复制"),
        text=Words(
            "Two samples of one prompt share its last, partly filled block. Nobody copies it before writing.",
            "同一提示词的两个样本共享最后一个未填满的块，写之前谁也没有复制。",
        ),
        watch=Words(
            "Both write their first token into the same slot; from then on one of them reads the other's word. The "
            "guard of the cache manager objects in that very step.",
            "两个样本把各自的第一个词元写进同一个槽位，此后其中一个读到的是另一个的字。就在这一步，缓存管理器的检查提出异议。",
        ),
        prompts=[_MOUNTAIN],
        sampling={"max_tokens": 16, "ignore_eos": True, "n": 2, "temperature": 1.2, "seed": 1},
        config=_config(block_size=4, num_blocks=32),
    ),
    Exhibit(
        id="stale_hash_after_reallocation",
        title=Words("A hash that outlived its block", "块已换主，哈希还在"),
        text=Words(
            "A block is given to another sequence, but the index still lists it under its old hash.",
            "块已经分给别的序列，索引里却还留着它的旧哈希。",
        ),
        watch=Words(
            "Three requests, one after the other: a poem, another poem in a pool that has no room for both, and the "
            "first one again. The third finds “its” prefix in blocks that now hold the second, and goes on from there.",
            "三个请求依次运行：一首诗，另一首诗（池里放不下两首），再来第一首。第三个在块里找到“自己的”前缀，其实那里已经是第二首。",
        ),
        prompts=[_MOON, _FROST + "举头望明月，低头思故乡。", _MOON],
        sampling={"max_tokens": 16, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=10, max_num_seqs=1),
    ),
    Exhibit(
        id="output_lost_at_preemption",
        title=Words("Output lost at preemption", "抢占时丢了输出"),
        text=Words(
            "A preempted sequence is computed again from its prompt and its last token; what it had said is forgotten.",
            "被抢占的序列只用提示词和最后一个词元重算，之前说过的都忘了。",
        ),
        watch=Words(
            "Until the first preemption both runs agree. After it, the sequence that came back goes on from the wrong "
            "place.",
            "第一次抢占之前两边一致；之后，回来的序列从错误的地方接着写。",
        ),
        prompts=[_MOON, "白日依山尽，黄河入海流。", _FROST],
        sampling={"max_tokens": 32, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=18),
    ),
    Exhibit(
        id="missing_causal_mask",
        title=Words("No causal mask", "没有因果掩码"),
        text=Words(
            "Tokens of the prompt attend to those that come after them.",
            "提示词里的词元看到了排在自己后面的词元。",
        ),
        watch=Words(
            "The attention rows of the prefill fill the whole square, not the lower triangle. Decoding looks right, "
            "but reads keys and values that were computed wrongly.",
            "预填充的注意力填满整个方块，而不是下三角。解码看着没错，读到的 K 和 V 却是错着算出来的。",
        ),
        prompts=[_MOUNTAIN],
        sampling={"max_tokens": 24, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=32),
    ),
    Exhibit(
        id="rope_restarted_at_chunk",
        title=Words("Positions restarted at a chunk", "分块时位置归零"),
        text=Words(
            "Each chunk of a long prompt is rotated as if it began at position 0.",
            "长提示词的每一块都按从位置 0 开始来旋转。",
        ),
        watch=Words(
            "The first chunk's keys agree with the healthy run; from the second chunk on they do not. The books are "
            "right.",
            "第一块的键与正常运行一致，从第二块起就不一致了。账目都对。",
        ),
        prompts=[_MOON + "滟滟随波千万里，何处春江无月明？"],
        sampling={"max_tokens": 24, "ignore_eos": True},
        config=_config(block_size=4, num_blocks=32, max_num_batched_tokens=12),
    ),
]
