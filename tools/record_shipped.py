"""Makes the recordings that come with the program: `python -m tools.record_shipped [NAME…]`.

Each is a real run of a bundled model. A recording's card beside it says the command that makes it again; the same
command gives the same log apart from the clocks (`tests/unit/recordings/test_shipped.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from app.paths import static_dir
from app.recordings.shelf import SUFFIX, Card
from app.scenes.told import Translated
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.intake import RequestSpec
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.model.shipped import BUNDLED
from engine.trace.check import check

MOON = "春江潮水连海平，海上明月共潮生。"
MOUNTAIN = "白日依山尽，黄河入海流。"
FROST = "床前明月光，疑是地上霜。"
ALL = 16 << 20  # bytes of arrays a step, as a theater keeps them
FEW = 320 << 10


class Shipped(Struct, frozen=True, kw_only=True):
    """One recording: prompts in waves, each wave submitted when the one before is computed to its end."""

    name: str
    title: Translated
    text: Translated
    tags: list[str]
    waves: list[list[str]]
    config: dict[str, Any]
    sampling: dict[str, Any]
    budget_bytes: int = ALL


RECORDINGS = [
    Shipped(
        name="moon",
        title={"en": "A poem, token by token", "zh": "一首诗，逐字生成"},
        text={
            "en": (
                "Sixteen tokens are prefilled in one step, then come 23 decode steps. "
                "Every layer's Q, K, V and attention are recorded."
            ),
            "zh": "一步预填充 16 个 token，再解码 23 步。每一层的 Q、K、V 和注意力都已录下。",
        },
        tags=["prefill", "decode"],
        waves=[[MOON]],
        config={"block_size": 4, "num_blocks": 24},
        sampling={"max_tokens": 24, "ignore_eos": True},
    ),
    Shipped(
        name="prefix",
        title={"en": "A prefix that hits, one that misses", "zh": "前缀：命中与未命中"},
        text={
            "en": (
                "The second prompt begins like the first and finds its blocks in the cache; the third differs at its "
                "first token and finds none."
            ),
            "zh": "第二个提示与第一个开头相同，在缓存里找到它的块；第三个从第一个 token 起就不同，一块也没找到。",
        },
        tags=["prefix cache"],
        waves=[[MOON], [MOON + "滟滟随波千万里，"], ["空山新雨后，天气晚来秋。"]],
        config={"block_size": 4, "num_blocks": 32},
        sampling={"max_tokens": 8, "ignore_eos": True},
        budget_bytes=FEW,
    ),
    Shipped(
        name="preemption",
        title={"en": "Too many for the pool: preemption", "zh": "块池不够：抢占"},
        text={
            "en": (
                "Three sequences grow until no block is free. The one admitted last is preempted, waits, "
                "and is computed again."
            ),
            "zh": "三个序列不断变长，直到没有空闲块。最后被接纳的序列被抢占、等待，然后重新计算。",
        },
        tags=["preemption", "scheduler"],
        waves=[[MOON, MOUNTAIN, FROST]],
        config={"block_size": 4, "num_blocks": 18},
        sampling={"max_tokens": 24, "ignore_eos": True},
        budget_bytes=FEW,
    ),
    Shipped(
        name="samples",
        title={"en": "Three samples of one prompt: copy-on-write", "zh": "一个提示，三个样本：写时复制"},
        text={
            "en": (
                "Parallel sampling forks the prompt's blocks. The partly filled last one is copied at the first write "
                "to it by each but its last owner."
            ),
            "zh": "并行采样让三个序列共享提示的块。最后那个未填满的块在第一次写入时复制，最后一个拥有者就地写入。",
        },
        tags=["fork", "copy-on-write"],
        waves=[[MOUNTAIN + "欲穷"]],
        config={"block_size": 4, "num_blocks": 32, "seed": 24},
        sampling={"max_tokens": 12, "ignore_eos": True, "n": 3, "temperature": 0.9},
        budget_bytes=FEW,
    ),
]


def main(names: list[str]) -> int:
    """Make those that are named, or all. Returns the exit status."""
    folder = static_dir() / "recordings"
    unknown = set(names) - {shipped.name for shipped in RECORDINGS}
    if unknown:
        print(f"there is no recording {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    model = load_model(BUNDLED)
    for shipped in RECORDINGS:
        if not names or shipped.name in names:
            path = folder / f"{shipped.name}{SUFFIX}"
            path.unlink(missing_ok=True)
            record(model, shipped, path)
            wrong = list(check(path))
            text = msgspec.json.format(msgspec.json.encode(card(shipped)), indent=2)
            path.with_suffix(".json").write_bytes(text + b"\n")
            print(f"{path.name}: {path.stat().st_size:,} bytes" + "".join(f"\n  {finding}" for finding in wrong))
    return 0


def card(shipped: Shipped) -> Card:
    """What stands beside the file."""
    command = f"python -m tools.record_shipped {shipped.name}"
    return Card(title=shipped.title, text=shipped.text, tags=shipped.tags, command=command)


def record(model: LoadedModel, shipped: Shipped, path: Path) -> None:
    """Run it, the log going to `path`."""
    capture = CaptureRequest(budget_bytes=shipped.budget_bytes, dtype="float32")
    sampling = SamplingParams(**shipped.sampling)
    with Engine(model, EngineConfig(**shipped.config), log_path=path, capture=capture) as engine:
        for wave in shipped.waves:
            engine.add_requests([RequestSpec(text, sampling) for text in wave])
            while engine.has_unfinished():
                engine.step()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
