"""How fast the device decodes: benchmark records of two models' shapes, and profiles of a few steps.

Each record is the scenario `gpu-decode` at another shape, context and set of variants; what one compares is run in
turns, as always. Records lie in OUT/records and are read as any other (`kvtheater bench report`, the page /bench).
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec.structs import replace
from torch.profiler import ProfilerActivity, profile

from engine.bench.errors import BenchError, Cancelled
from engine.bench.models import LLAMA_8B, QWEN, TINY, Models
from engine.bench.record import Point, Record, write_record
from engine.bench.runner import Runner
from engine.bench.scenario import Case, Scenario, VariantSpec, find_scenario
from engine.bench.text import Text
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from tests.gpu.results import Run
from tests.gpu.variants import VARIANTS, overrides

PEERS = ("dynamic", "continuous")
BLOCK = 16
OUTPUT = 24  # tokens of each request; the median step is taken over all but the first
LAST_SECONDS = 15.0  # of the part: a record that would end later is stopped between two rounds
PROFILED_STEPS = 5


@dataclass(frozen=True)
class Piece:
    """One record: a model at a context length."""

    model: str
    keys: int
    batches: tuple[int, ...]
    variants: tuple[str, ...]  # of `gpu-decode`, "captured", or of VARIANTS
    rounds: int

    @property
    def id(self) -> str:
        return f"gpu-decode-{self.model.removesuffix('-random')}-{self.keys}" + "-compiled" * (
            "compiled" in self.variants
        )


ALL = ("eager", "captured", *VARIANTS, *PEERS)
OURS = ("eager", "all of them", "continuous")
# in order of worth; 256 x 4,096 keys of the 0.6 B shape take 120 GB
PIECES = [
    Piece(QWEN, 512, (64, 1, 16, 256), ALL, 3),
    Piece(LLAMA_8B, 512, (64, 1, 16, 256), OURS, 2),
    Piece(QWEN, 4096, (1, 16, 64), OURS, 1),
    Piece(QWEN, 128, (1, 16, 64, 256), OURS, 2),
    Piece(LLAMA_8B, 4096, (1, 16, 64), OURS[:2], 1),
    Piece(LLAMA_8B, 128, (1, 64, 256), OURS[:2], 1),
    Piece(QWEN, 512, (1, 64), ("eager", "compiled"), 2),
]
TINY_PIECES = [Piece(TINY, 32, (1, 2), ALL, 1)]


def run(run: Run) -> None:
    """Profiles of the first shape, then records until the time is over."""
    pieces = TINY_PIECES if run.tiny else PIECES
    models = Models()
    for batch in (1, 2) if run.tiny else (1, 64):
        name = f"profile of batch {batch}"
        with run.trying(name):
            run.add(name, "measured", profiled(run, models, pieces[0], batch))
    models.close()
    told: set[str] = set()
    for piece in pieces:
        if run.seconds_left < LAST_SECONDS:
            run.add(piece.id, "stopped", "no time was left for it")
            continue
        with run.trying(piece.id):
            scenario = scenario_of(run, piece, told)
            end = time.monotonic() + run.seconds_left - LAST_SECONDS
            runner = Runner(
                scenario, quiet_seconds=0.0, command="python -m tests.gpu", cancelled=partial(_is_past, end)
            )
            try:
                record = runner.run()
            except Cancelled:
                run.add(piece.id, "stopped", "before its first round was over")
                continue
            except BenchError as error:
                run.add(piece.id, "skipped", str(error))
                continue
            write_record(record, run.out / "records" / f"{piece.id}.json")
            tell(run, record)


def _is_past(moment: float) -> bool:
    return time.monotonic() > moment


def scenario_of(run: Run, piece: Piece, told: set[str]) -> Scenario:
    """`gpu-decode` for a piece, without the variants that this engine has no options for; each is said once."""
    base = find_scenario("gpu-decode")
    known = {variant.id: variant for variant in base.variants}
    known["captured"] = VariantSpec(
        id="captured", title=Text(en="all arrays captured", zh="捕获全部数组"), set={"observer": "capture"}
    )
    variants = []
    for name in piece.variants:
        if name in known:
            variants.append(known[name])
            continue
        settings, missing = overrides(name)
        if not missing:
            paths = {f"engine.{option}": value for option, value in settings.items()}
            variants.append(VariantSpec(id=name.replace(" ", "-"), title=Text(en=name, zh=name), set=paths))
        elif name not in told:
            told.add(name)
            run.add(f"variant {name}", "skipped", missing)
    output = 4 if run.tiny else OUTPUT
    prompt = piece.keys - output  # the last step sees so many keys
    cases = [
        Case(
            value=batch,
            set={"workload.num_requests": batch, "engine.num_blocks": batch * (-(-(prompt + output) // BLOCK) + 1)},
        )
        for batch in piece.batches
    ]
    ids = [variant.id for variant in variants]
    return replace(
        base,
        id=piece.id,
        title=Text(
            en=f"{base.title.en}: {piece.model}, {piece.keys} keys",
            zh=f"{base.title.zh}：{piece.model}，{piece.keys} 个键",
        ),
        model=piece.model,
        dtype="float32" if run.device == "cpu" else base.dtype,
        needs_gpu=run.device != "cpu",
        workload={"kind": "random", "num_requests": 1, "prompt_tokens": prompt, "output_tokens": output},
        engine={
            "max_num_seqs": 256,
            "max_num_batched_tokens": 8192,
            "max_model_len": prompt + output,
            "num_logprobs": 0,
        },
        axis=replace(base.axis, sets=[], values=[], cases=cases),
        variants=variants,
        baselines=[name for name in ("eager", *PEERS) if name in ids],
        headlines=[],
        rounds=piece.rounds,
        measure=[*base.measure, "itl_p50"],  # without what a run does once, as capturing graphs
    )


def tell(run: Run, record: Record) -> None:
    """A line for each variant at each batch size."""
    for point in record.points:
        name = f"{record.scenario.id.removeprefix('gpu-decode-')}, batch {point.at}, {point.variant}"
        if point.failed:
            run.add(name, "skipped", point.failed)
            continue
        run.add(name, "measured", said(point), figures={key: figure.median for key, figure in point.figures.items()})


def said(point: Point) -> str:
    """Step time, share of the copy bandwidth, and throughput against the baselines."""
    figures = point.figures
    parts = []
    if step := figures.get("decode_step_seconds"):
        parts.append(f"{1e3 * step.median:.2f} ms a step")
    if share := figures.get("bandwidth_share"):
        parts.append(f"{100 * share.median:.0f} % of copy")
    tokens = figures.get("itl_p50")
    if tokens is not None:
        parts.append(f"{1e3 * tokens.median:.2f} ms a token")
        parts += [f"×{1 / ratio.median:.2f} {name}" for name, ratio in tokens.ratios.items() if ratio.median]
    return ", ".join(parts)


def profiled(run: Run, models: Models, piece: Piece, batch: int) -> str:
    """Profile a few decode steps; the table of the 20 operations that take longest goes to OUT."""
    model = models.engine_model(piece.model, "float32" if run.device == "cpu" else "bfloat16")
    on_gpu = model.device.type == "cuda"
    output = PROFILED_STEPS + 4
    blocks = batch * (-(-(piece.keys + output) // BLOCK) + 1)
    config = EngineConfig(
        num_blocks=blocks, max_num_seqs=256, max_num_batched_tokens=8192, num_logprobs=0, enforce_eager=True
    )
    with Engine(model, config, keep_log=False) as engine:
        for index in range(batch):
            prompt = [
                300 + (7919 * (index + 1) * (at + 1)) % (model.facts.vocab_size - 300) for at in range(piece.keys)
            ]
            engine.add_request(prompt, SamplingParams(max_tokens=output, ignore_eos=True))
        while engine.prefill_pending():
            engine.step()
        engine.step()
        began = time.perf_counter()
        with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as found:
            for _ in range(PROFILED_STEPS):
                engine.step()
        seconds = time.perf_counter() - began
    rows = found.key_averages()
    column = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    ordered = sorted(rows, key=lambda row: -getattr(row, column))[:20]
    (run.out / f"profile-{batch}.txt").write_text(rows.table(sort_by=column, row_limit=20), encoding="utf-8")
    listed: list[dict[str, Any]] = [
        {
            "name": row.key,
            "count": row.count,
            "device_us": row.self_device_time_total,
            "cpu_us": row.self_cpu_time_total,
        }
        for row in ordered
    ]
    (run.out / f"profile-{batch}.json").write_text(json.dumps(listed, indent=1))
    busy, of = sum(getattr(row, column) for row in rows) / 1e6, "GPU" if on_gpu else "CPU"
    step = f"{1e3 * seconds / PROFILED_STEPS:.2f} ms a profiled step"
    return f"{step}, {of} busy {100 * busy / seconds:.0f} %, most: {ordered[0].key}"
