"""Record the shipped recordings: `python -m tools.record_shipped [NAME…]`.

Each is a run of the bundled model. The card of a recording has the command that records it again; the log is the same
except for times (`tests/unit/recordings/test_shipped.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct

from app.ground.paths import static_dir
from app.recordings.shelf import SUFFIX, Card
from app.scenes.scene_texts import Translated
from app.site.runs import play
from engine.config import EngineConfig, SamplingParams
from engine.connector.offloading import OffloadingConnector
from engine.connector.tiers.settings import DiskSetting
from engine.connector.tiers.tiers import Tiers
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.model.shipped import BUNDLED
from engine.requests.request_spec import RequestSpec
from engine.trace.check import check

MOON = "春江潮水连海平，海上明月共潮生。"
MOUNTAIN = "白日依山尽，黄河入海流。"
FROST = "床前明月光，疑是地上霜。"
NOBODY = "I'm nobody! Who are you?\nAre you nobody, too?\nThen there's a pair of us - don't tell!\n"
WAVES = "滟滟随波千万里，何处春江无月明。"  # the verse after MOON
ALL = 16 << 20  # bytes of arrays per step, as in a session
FEW = 320 << 10
DISK_BYTES = 4 << 20


class Wave(Struct, frozen=True):
    """Prompts submitted together. `after`: number of steps before them; None: all earlier requests are finished."""

    prompts: list[str]
    after: int | None = None
    request_ids: list[str] | None = None
    sampling: dict[str, Any] = {}  # replaces parameters of the recording


class Shipped(Struct, frozen=True, kw_only=True):
    """Shipped recording of prompts in waves.

    `budget_bytes`: maximum size of arrays per step; `layer`: only layer with arrays, None: all. `to_disk`: whether full
    blocks are also stored in a folder; `earlier`: waves of an earlier server that stored blocks there.
    """

    name: str
    title: Translated
    text: Translated
    tags: list[str]
    waves: list[Wave]
    config: dict[str, Any]
    sampling: dict[str, Any]
    budget_bytes: int = ALL
    layer: int | None = None
    to_disk: bool = False
    earlier: list[Wave] = []


def opening(
    language: str, *, beginning: str, shares: str, waits: str, before: list[str], sampling: dict[str, Any] | None = None
) -> Shipped:
    """Return the recording of the opening: A runs alone, then B shares its prefix, then C must wait.

    Earlier requests change the order of the free queue, so that A's blocks are not consecutive.
    """
    return Shipped(
        name=f"opening-{language}",
        title={"en": f"The opening ({language})", "zh": f"开场（{language}）"},
        text={
            "en": (
                "The run of the opening: A runs alone, B begins with the same tokens and shares their blocks, "
                "C does not fit and waits. Arrays of one layer."
            ),
            "zh": (
                "开场动画所示的一次运行：A 先独自生成；B 以相同的 token 开头，共享它们的块；C 放不下，只好等待。"
                "只录一层的数组。"
            ),
        },
        tags=["opening", "prefix cache", "scheduler"],
        waves=[
            Wave(before, sampling={"max_tokens": 4}),
            Wave([beginning], request_ids=["A"]),
            Wave([shares], after=64, request_ids=["B"], sampling={"max_tokens": 12}),
            Wave([waits], after=1, request_ids=["C"], sampling={"max_tokens": 8}),
        ],
        config={"block_size": 8, "num_blocks": 12},
        sampling={"max_tokens": 68, "ignore_eos": True} | (sampling or {}),
        budget_bytes=64 << 10,
        layer=2,
    )


RECORDINGS = [
    opening(
        "zh",
        beginning="春",
        shares=MOON + "滟滟随波千万里，江流宛转绕芳甸，",
        waits="红豆生南国，春来发几枝。愿君多采撷，",
        before=[FROST, MOUNTAIN],
    ),
    opening(
        "en",
        beginning="I",
        shares=NOBODY + "How dreary to be somebody!\nHow",
        waits="Twinkle, twinkle, little star,\nHow I wonder what you are!",
        before=["Who has seen the wind?\nNeither I nor", "Little Lamb, who made thee?\nDost thou"],
        # three memorized poems begin with "I" and are about equally likely; this seed chooses the simplest one
        sampling={"temperature": 0.7, "seed": 2},
    ),
    Shipped(
        name="moon",
        title={"en": "A poem, token by token", "zh": "一首诗，逐字生成"},
        text={
            "en": (
                "Sixteen tokens are prefilled in one step, followed by 23 decode steps. "
                "Q, K, V and attention of every layer are recorded."
            ),
            "zh": "一步预填充 16 个 token，再解码 23 步。每一层的 Q、K、V 和注意力都已录下。",
        },
        tags=["prefill", "decode"],
        waves=[Wave([MOON])],
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
        waves=[Wave([MOON]), Wave([MOON + "滟滟随波千万里，"]), Wave(["空山新雨后，天气晚来秋。"])],
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
        waves=[Wave([MOON, MOUNTAIN, FROST])],
        config={"block_size": 4, "num_blocks": 18},
        sampling={"max_tokens": 24, "ignore_eos": True},
        budget_bytes=FEW,
    ),
    Shipped(
        name="samples",
        title={"en": "Three samples of one prompt: copy-on-write", "zh": "一个提示，三个样本：写时复制"},
        text={
            "en": (
                "Parallel sampling forks the prompt's blocks. The partly filled last block is copied when a "
                "sequence first writes to it, except by its last owner."
            ),
            "zh": "并行采样让三个序列共享提示的块。最后那个未填满的块在第一次写入时复制，最后一个拥有者就地写入。",
        },
        tags=["fork", "copy-on-write"],
        waves=[Wave([MOUNTAIN + "欲穷"])],
        config={"block_size": 4, "num_blocks": 32, "seed": 24},
        sampling={"max_tokens": 12, "ignore_eos": True, "n": 3, "temperature": 0.9},
        budget_bytes=FEW,
    ),
    Shipped(
        name="restart-before",
        title={"en": "Before a restart: full blocks go to disk", "zh": "重启之前：满块写进磁盘"},
        text={
            "en": (
                "Part 1 of 2. A prompt is computed as usual. Each full block is also copied to disk, in parallel with "
                "the computation. Then the server is stopped, and its pool is lost."
            ),
            "zh": "两段之一。提示照常计算；每个写满的块另存一份到磁盘，不耽误计算。随后服务器停机，块池就没有了。",
        },
        tags=["tiers", "prefill"],
        waves=[Wave([MOON + WAVES])],
        config={"block_size": 4, "num_blocks": 24},
        sampling={"max_tokens": 8, "ignore_eos": True},
        budget_bytes=FEW,
        to_disk=True,
    ),
    Shipped(
        name="restart-after",
        title={"en": "After the restart: the same prompt comes from disk", "zh": "重启之后：同一提示从磁盘读回"},
        text={
            "en": (
                "Part 2 of 2. A new server with an empty pool gets the same prompt: the prefix cache misses, the disk "
                "hits. The stored blocks are loaded, only the rest is computed, and the text is the same. The third "
                "time, the blocks are in the pool, and nothing is loaded."
            ),
            "zh": (
                "两段之二。新的服务器，空的块池，同一个提示：前缀缓存没有命中，磁盘里却有。存下的块读回来，只计算余下的，"
                "生成的文字不变。再来一次，块已在池中，不必再读。"
            ),
        },
        tags=["tiers", "prefix cache"],
        waves=[Wave([MOON + WAVES]), Wave([MOON + WAVES])],
        config={"block_size": 4, "num_blocks": 24},
        sampling={"max_tokens": 8, "ignore_eos": True},
        budget_bytes=FEW,
        to_disk=True,
        earlier=[Wave([MOON + WAVES])],
    ),
]


def main(names: list[str]) -> int:
    """Record the named recordings, or all. Returns the exit status."""
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
            findings = list(check(path))
            text = msgspec.json.format(msgspec.json.encode(card(shipped)), indent=2)
            path.with_suffix(".json").write_bytes(text + b"\n")
            print(f"{path.name}: {path.stat().st_size:,} bytes" + "".join(f"\n  {finding}" for finding in findings))
    return 0


def card(shipped: Shipped) -> Card:
    command = f"python -m tools.record_shipped {shipped.name}"
    return Card(title=shipped.title, text=shipped.text, tags=shipped.tags, command=command)


def record(model: LoadedModel, shipped: Shipped, path: Path) -> None:
    """Run a recording and write its log to `path`."""
    capture = CaptureRequest(budget_bytes=shipped.budget_bytes, dtype="float32")
    if shipped.layer is not None:
        capture = CaptureRequest(layers=[shipped.layer], only=True, budget_bytes=shipped.budget_bytes)
    config = EngineConfig(**shipped.config)
    with TemporaryDirectory() as folder:
        if shipped.earlier:
            with (
                tiers(folder) as store,
                Engine(model, config, connector=OffloadingConnector(store, model, config)) as e,
            ):
                run(e, shipped, shipped.earlier)
        if not shipped.to_disk:
            with Engine(model, config, log_path=path, capture=capture) as engine:
                run(engine, shipped, shipped.waves)
            return
        with tiers(folder) as store:
            connector = OffloadingConnector(store, model, config)
            with Engine(model, config, log_path=path, capture=capture, connector=connector) as engine:
                run(engine, shipped, shipped.waves)


def run(engine: Engine, shipped: Shipped, waves: list[Wave]) -> None:
    """Run all waves until all requests are finished."""
    for wave in waves:
        play(engine, wave.after)
        sampling = SamplingParams(**shipped.sampling | wave.sampling)
        names: Sequence[str | None] = wave.request_ids or [None] * len(wave.prompts)
        pairs = zip(wave.prompts, names, strict=True)
        engine.add_requests([RequestSpec(text, sampling, name) for text, name in pairs])
    play(engine, None)


@contextmanager
def tiers(folder: str) -> Iterator[Tiers]:
    """Open the tiers of a server. On exit all blocks are written."""
    store = Tiers(disk=DiskSetting(Path(folder), DISK_BYTES))
    try:
        yield store
    finally:
        assert store.close() == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
