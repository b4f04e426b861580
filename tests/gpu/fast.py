"""Measure decoding on the device: benchmark records of two models' shapes, and profiles of a few steps.

Each record is the scenario `gpu-decode` at another shape, context and set of variants, which are interleaved as in all
scenarios. Records are written to OUT/records, in the usual format (`kvtheater bench report`, page /bench).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from msgspec.structs import replace as changed
from torch.profiler import ProfilerActivity, profile

from engine.accounting.roofline import bytes_moved
from engine.bench.errors import BenchError, Cancelled
from engine.bench.models import LLAMA_8B, QWEN, TINY, Models
from engine.bench.record import Point, Record, write_record
from engine.bench.runner import Runner
from engine.bench.scenario import Case, Scenario, VariantSpec, find_scenario
from engine.bench.text import Text
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.setup.machine import measure_roofs
from engine.trace.records import StepRecord
from tests.gpu.results import Run
from tests.gpu.variants import BESIDE, GRAPHS, overrides

PEERS = ("dynamic", "continuous")
BLOCK = 16
OUTPUT = 24  # tokens per request; the first step is not part of the median
PREFILL_TOKENS = 8192  # per step
LAST_SECONDS = 15.0  # a record that is not complete so long before the time limit is stopped between two rounds
PROFILED_STEPS = 5


@dataclass(frozen=True)
class Piece:
    """Record to make: a model at a context length; without variants, `gpu-decode` as shipped."""

    model: str
    keys: int
    batches: tuple[int, ...]
    variants: tuple[str, ...]  # of `gpu-decode` or of VARIANTS
    rounds: int

    @property
    def id(self) -> str:
        if not self.variants:
            return "gpu-decode"
        batches = "-".join(map(str, self.batches))
        return f"gpu-decode-{self.model.removesuffix('-random')}-{self.keys}-{batches}"


OURS = ("all of them", "continuous")
# most important first; 256 x 4,096 keys of the 0.6 B shape take 120 GB
PIECES = [
    Piece(QWEN, 512, (64, 1, 16), (), 3),
    Piece(QWEN, 4096, (16, 1, 64), OURS, 1),
    Piece(QWEN, 512, (256,), OURS, 2),
    Piece(QWEN, 128, (1, 16, 64, 256), OURS, 2),
    Piece(LLAMA_8B, 512, (64, 1, 16), OURS, 2),
    Piece(LLAMA_8B, 4096, (1, 16), OURS, 1),
    Piece(LLAMA_8B, 128, (1, 64, 256), OURS, 1),
]
TOGETHER = {**GRAPHS, **BESIDE}
TINY_PIECES = [Piece(TINY, 32, (1, 2), ("eager", "all of them", *PEERS), 1)]


def run(run: Run) -> None:
    """Measure steps and profiles of the first shape, then make records until the time is used up."""
    pieces = TINY_PIECES if run.tiny else PIECES
    device = torch.device(run.device)
    roof = measure_roofs(device, getattr(torch, dtype_of(run))).bytes_per_second
    run.add("copy", "measured", f"{roof / 1e9:.0f} GB/s, read and written", bytes_per_second=roof)
    models = Models()
    compiled_steps(run, models, pieces[0], (1, 2) if run.tiny else (64, 1, 16, 256), roof)
    if not run.tiny:
        each_compiled(run, models, replace(pieces[0], keys=4096), (64, 16, 1), roof)
        others = Models()
        piece = next(piece for piece in pieces if piece.model == LLAMA_8B)
        compiled_steps(run, others, piece, (64, 1, 16), roof)
        each_compiled(run, others, replace(piece, keys=4096), (64,), roof)
        others.close()
    reported: set[str] = set()
    for index, piece in enumerate(pieces):
        if index == 1 or run.tiny:
            others = Models()  # without compiled forward pass
            steps(run, others, pieces[0], roof)
            others.close()
        if run.seconds_left < LAST_SECONDS:
            run.add(piece.id, "stopped", "no time was left for it")
            continue
        with run.trying(piece.id):
            scenario = scenario_of(run, piece, reported)
            end = time.monotonic() + run.seconds_left - LAST_SECONDS
            runner = Runner(
                scenario,
                quiet_seconds=0.0,
                command="python -m tests.gpu",
                cancelled=partial(_is_past, end),
                models=models,
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
            add_results(run, record)
    models.close()


def steps(run: Run, models: Models, piece: Piece, roof: float) -> None:
    """Measure decode steps of a model with and without graphs, and while observed."""
    sizes = (1, 2) if run.tiny else (64, 1)
    each(run, "steps, eager", sizes, lambda batch: stepped(run, models, piece, batch, roof))
    each(run, "steps, graphs", sizes, lambda batch: stepped(run, models, piece, batch, roof, **GRAPHS))
    each(run, "watched layer", sizes, lambda batch: watched(run, models, piece, batch))


def compiled_steps(run: Run, models: Models, piece: Piece, sizes: tuple[int, ...], roof: float) -> None:
    """Measure compiled decode steps as CUDA graphs, and profile the first size."""
    with run.trying(f"compiling {piece.model}"):
        began = time.perf_counter()
        models.engine_model(piece.model, dtype_of(run), compiled=True)
        run.add(f"compiling {piece.model}", "measured", f"{time.perf_counter() - began:.0f} s")
        each_compiled(run, models, piece, sizes, roof)
        each(run, f"profile {piece.model}", sizes[:1], lambda size: profiled(run, models, piece, size, **TOGETHER))


def each_compiled(run: Run, models: Models, piece: Piece, sizes: tuple[int, ...], roof: float) -> None:
    """Add a result for each batch size of a compiled model."""
    title = f"compiled {piece.model}, {piece.keys} keys"
    each(run, title, sizes, lambda size: stepped(run, models, piece, size, roof, **TOGETHER))


def each(run: Run, title: str, sizes: tuple[int, ...], measure: Callable[[int], str]) -> None:
    """Add a result for each batch size."""
    for batch in sizes:
        with run.trying(f"{title}, batch {batch}"):
            run.add(f"{title}, batch {batch}", "measured", measure(batch))


def dtype_of(run: Run) -> str:
    """Return the dtype of the measured weights."""
    return "float32" if run.device == "cpu" else "bfloat16"


def _is_past(moment: float) -> bool:
    return time.monotonic() > moment


def scenario_of(run: Run, piece: Piece, reported: set[str]) -> Scenario:
    """Return `gpu-decode` for a piece, without variants that this engine lacks, each of which is reported once."""
    base = find_scenario("gpu-decode")
    if not piece.variants:
        return base
    known = {variant.id: variant for variant in base.variants}
    variants = []
    for name in piece.variants:
        if name in known:
            variants.append(known[name])
            continue
        settings, missing = overrides(name)
        if not missing:
            paths = {f"engine.{option}": value for option, value in settings.items()}
            variants.append(
                VariantSpec(id=name.replace(",", "").replace(" ", "-"), title=Text(en=name, zh=name), set=paths)
            )
        elif name not in reported:
            reported.add(name)
            run.add(f"variant {name}", "skipped", missing)
    output = 4 if run.tiny else OUTPUT
    prompt = piece.keys - output  # so that the last step attends to piece.keys keys
    cases, longest = list[Case](), 0
    for batch in piece.batches:
        made = output + prefill_steps(batch, prompt)
        longest = max(longest, prompt + made)
        num_blocks = batch * (-(-(prompt + made) // BLOCK) + 1)
        sets = {"workload.num_requests": batch, "workload.output_tokens": made, "engine.num_blocks": num_blocks}
        cases.append(Case(value=batch, set=sets))
    ids = [variant.id for variant in variants]
    return changed(
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
            "max_num_batched_tokens": PREFILL_TOKENS,
            "max_model_len": longest,
            "num_logprobs": 0,
        },
        axis=changed(base.axis, sets=[], values=[], cases=cases),
        variants=variants,
        baselines=[name for name in ("eager", *PEERS) if name in ids],
        headlines=[],
        rounds=piece.rounds,
        measure=[
            *base.measure,
            "itl_p50",
            "decode_forward_seconds",
            "own_share",
        ],  # excludes one-time work such as capturing graphs
    )


def add_results(run: Run, record: Record) -> None:
    """Add a result for each variant at each batch size."""
    for point in record.points:
        name = f"{record.scenario.id.removeprefix('gpu-decode-')}, batch {point.at}, {point.variant}"
        if point.failed:
            run.add(name, "skipped", point.failed)
            continue
        run.add(
            name, "measured", figures_text(point), figures={key: figure.median for key, figure in point.figures.items()}
        )


def figures_text(point: Point) -> str:
    """Return step time, share of the copy bandwidth, and throughput against the baselines."""
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


def decoding(
    run: Run,
    models: Models,
    piece: Piece,
    batch: int,
    output: int = OUTPUT,
    capture: CaptureRequest | None = None,
    **settings: Any,
) -> Engine:
    """Return an engine that has computed all prompts. The next `output` - 1 steps each decode `batch` tokens."""
    model = models.engine_model(piece.model, dtype_of(run))
    output += prefill_steps(batch, piece.keys)
    blocks = batch * (-(-(piece.keys + output) // BLOCK) + 1)
    config = EngineConfig(num_blocks=blocks, max_num_seqs=256, max_num_batched_tokens=PREFILL_TOKENS, num_logprobs=0)
    config = changed(config, **{"enforce_eager": True, **settings})
    engine = Engine(model, config, keep_log=capture is not None, capture=capture)
    span = model.facts.vocab_size - 300
    for index in range(batch):
        prompt = [300 + 7919 * (index + 1) * (at + 1) % span for at in range(piece.keys)]
        engine.add_request(prompt, SamplingParams(max_tokens=output, ignore_eos=True))
    while engine.prefill_pending():
        engine.step()
    engine.step()
    return engine


def prefill_steps(batch: int, prompt: int) -> int:
    """Return the number of steps until all prompts are computed, by which outputs must be longer."""
    return -(-batch * prompt // PREFILL_TOKENS)


def stepped(run: Run, models: Models, piece: Piece, batch: int, roof: float, **settings: Any) -> str:
    """Return medians over decode steps: step time, device time of the forward pass, share of the copy bandwidth."""
    taken: list[tuple[float, StepRecord]] = []
    with decoding(run, models, piece, batch, **settings) as engine:
        for _ in range(OUTPUT - 4):
            began = time.perf_counter()
            record = engine.step(goes_on=True)
            taken.append((time.perf_counter() - began, record))
        engine.rest()
    taken = taken[2:]
    step = statistics.median(seconds for seconds, _ in taken)
    forward = statistics.median(record.timing.forward for _, record in taken)
    needed = statistics.median(bytes_moved(record.work) for _, record in taken if record.work is not None) / roof
    parts = ", ".join(
        f"{name} {1e3 * statistics.median(getattr(record.timing, name) for _, record in taken):.2f}"
        for name in ("schedule", "prepare", "sample")
    )
    shares = f"{100 * needed / step:.0f} % of copy, the pass alone {100 * needed / forward:.0f} %"
    return f"{1e3 * step:.2f} ms, forward {1e3 * forward:.2f} ({parts}): {shares}"


def watched(run: Run, models: Models, piece: Piece, batch: int) -> str:
    """Measure decode steps that capture one layer's arrays and weights, alternating with steps that capture nothing."""
    layer = CaptureRequest(layers=[1], only=True, outputs=True)
    with decoding(run, models, piece, batch) as plain, decoding(run, models, piece, batch, capture=layer) as recording:
        times: list[list[float]] = [[], []]
        for _ in range(OUTPUT - 4):
            for engine, taken in zip((plain, recording), times, strict=True):
                began = time.perf_counter()
                engine.step()
                taken.append(time.perf_counter() - began)
    without, with_it = (statistics.median(taken[2:]) for taken in times)
    return f"×{with_it / without:.2f}: {1e3 * with_it:.2f} ms a step, {1e3 * without:.2f} ms without recording"


def profiled(run: Run, models: Models, piece: Piece, batch: int, **settings: Any) -> str:
    """Profile a few decode steps; write a table of the 20 longest operations to OUT."""
    on_gpu = run.device != "cpu"
    with decoding(run, models, piece, batch, PROFILED_STEPS + 4, **settings) as engine:
        began = time.perf_counter()
        with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as found:
            for _ in range(PROFILED_STEPS):
                engine.step()
        seconds = time.perf_counter() - began
    rows = found.key_averages()
    column = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    ordered = sorted(rows, key=lambda row: -getattr(row, column))[:20]
    (run.out / f"profile-{piece.model}-{batch}.txt").write_text(
        rows.table(sort_by=column, row_limit=20), encoding="utf-8"
    )
    listed: list[dict[str, Any]] = [
        {
            "name": row.key,
            "count": row.count,
            "device_us": row.self_device_time_total,
            "cpu_us": row.self_cpu_time_total,
        }
        for row in ordered
    ]
    (run.out / f"profile-{piece.model}-{batch}.json").write_text(json.dumps(listed, indent=1))
    busy, of = sum(getattr(row, column) for row in rows) / 1e6, "GPU" if on_gpu else "CPU"
    step = f"{1e3 * seconds / PROFILED_STEPS:.2f} ms a profiled step"
    return f"{step}, {of} busy {100 * busy / seconds:.0f} %, most: {ordered[0].key}"
