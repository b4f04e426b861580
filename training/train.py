"""Train the bundled model.

    python -m training.train --corpus FOLDER --config training/bundled.toml --out DIR [--export DIR]
                             [--max-minutes M] [--steps N] [--resume] [--variant NAME] [--packed FILE]

A short calibration determines the step count, so that the run takes about `max_minutes`; it is printed and saved. Data
order, initialization and schedule depend only on the seed and the step count, so a run with `--steps N` is
deterministic on the same machine and versions. If the machine becomes slower than calibrated, the clock determines the
schedule, and the run ends early with a fully decayed learning rate. `progress.json` then has `clock_bound`, and the run
cannot be repeated exactly. With `--steps` the clock is ignored, unless `--max-minutes` is given as well.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from engine.model.compiler_cache import use_own_cache
from training.checkpoint import PROGRESS, Progress, load_checkpoint, save_checkpoint
from training.config import Config, Section, load_config
from training.corpus import END_OF_TEXT, read_split
from training.data import Batch, Documents, batches, encode_corpus, mix, token_id
from training.model import batch_loss, build_model, export_model, to_device
from training.optimizer import Optimizer, schedule
from training.packed import PackedRows, read_packed
from training.record import save_record

WARM_STEPS = 2  # steps before calibration, for compilation and first memory accesses


@dataclass(frozen=True, slots=True)
class Phase:
    """Part of a run with rows of one length. Short rows come first: they are cheap, and most documents are short."""

    share: float  # share of the run's steps
    row_tokens: int
    batch_rows: int  # rows per step
    micro_rows: int  # rows per forward pass
    documents: Documents | PackedRows

    @property
    def step_tokens(self) -> int:
        """Tokens per step."""
        return self.batch_rows * self.row_tokens


def read_phases(settings: Section, documents: Callable[[int], Documents | PackedRows]) -> list[Phase]:
    """Return the short and the long phase of `[train]`. `documents`: returns the documents for a row length."""
    short, long = settings, settings["long"]
    return [
        Phase(share, part["row_tokens"], part["batch_rows"], part["micro_rows"], documents(part["row_tokens"]))
        for share, part in ((1 - long["share"], short), (long["share"], long))
    ]


class Trainer:
    """Training run: model, optimizer and data, one step at a time."""

    def __init__(self, config: Config, phases: list[Phase], tokenizer: Tokenizer, device: torch.device) -> None:
        self.settings = config["train"]
        self.data = config["data"]
        self.phases = phases
        self.device = device
        self.end = token_id(tokenizer, END_OF_TEXT)
        torch.manual_seed(self.settings["seed"])
        self.model: PreTrainedModel = build_model(config["model"], tokenizer.get_vocab_size(), self.end).to(device)
        self.parameters = list(self.model.parameters())
        self.optimizer = Optimizer(self.model, self.settings)
        self.compiled: set[torch.Size] = set()
        self.pool = ThreadPoolExecutor(self.settings["workers"] if device.type == "cpu" else 1)
        use_own_cache()
        compiles = self.settings["compile"]
        self.loss: Callable[..., torch.Tensor] = torch.compile(batch_loss, dynamic=False) if compiles else batch_loss

    def batches(self, phase: Phase, steps: int, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of `phase` in a run of `steps` steps, without the first `skip`."""
        if isinstance(phase.documents, PackedRows):
            return phase.documents.batches(phase.batch_rows, self.settings["seed"], skip, self.device)
        tokens = round(steps * phase.share) * phase.step_tokens
        stream = mix(phase.documents, self.data, tokens, self.settings["seed"], phase.share)
        found = batches(stream, phase.row_tokens, phase.batch_rows, self.end)
        for _ in range(skip):
            next(found)
        return found

    def gradients(self, batch: Batch, rows: int) -> torch.Tensor:
        """Set every parameter's gradient to that of the batch's mean loss, and return the loss in nats per token.

        The loss is a scalar tensor; a GPU is not synchronized. `rows`: number of rows per forward pass.

        On a CPU, `workers` threads share the parts of the batch. Results are added in the order of the parts, so the
        sum does not depend on scheduling. This tolerates other load on the machine far better than parallel operations.
        """
        count = (batch.targets >= 0).sum().to(self.device)
        parts = [
            Batch(*(getattr(batch, name)[start : start + rows] for name in Batch.__slots__))
            for start in range(0, len(batch.ids), rows)
        ]
        # the first pass of each shape compiles, and must not run in parallel
        shape = parts[0].ids.shape
        found = (
            map(self.part_gradients, parts) if shape not in self.compiled else self.pool.map(self.part_gradients, parts)
        )
        total, sums = torch.zeros((), device=self.device), list[torch.Tensor]()
        for loss, gradients in found:
            total = total + loss
            sums = [a.add_(b) for a, b in zip(sums, gradients, strict=True)] if sums else gradients
        self.compiled.add(shape)
        for parameter, gradient in zip(self.parameters, sums, strict=True):
            parameter.grad = gradient.div_(count)
        return total / count

    def part_gradients(self, part: Batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the summed loss of a part, in nats, and its gradients in the order of `parameters`."""
        if self.device.type == "cpu":
            torch.set_num_threads(1)  # a setting of each thread
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
            loss = self.loss(self.model, *to_device(part, self.device))
        gradients = torch.autograd.grad(loss, self.parameters)
        return loss.detach(), list(gradients)

    def warm_up(self) -> None:
        """Compile the pass of each phase, so that it is not timed."""
        for phase in self.phases:
            float(self.gradients(next(self.batches(phase, 1)), phase.micro_rows))
        for parameter in self.parameters:
            parameter.grad = None

    def calibrate(self, max_minutes: float) -> tuple[int, float]:
        """Return the number of steps in `max_minutes`, and the seconds per step. Does not change the model."""
        phase = self.phases[0]
        source = self.batches(phase, WARM_STEPS + self.settings["calibration_steps"])
        start, loss = 0.0, torch.zeros(())
        for index in range(WARM_STEPS + self.settings["calibration_steps"]):
            if index == WARM_STEPS:
                float(loss)  # synchronize the GPU
                start = time.monotonic()
            loss = self.gradients(next(source), phase.micro_rows)
            self.optimizer.step(1, 0.0, self.pool)  # a rate of 0 changes no weight; the state is cleared below
        float(loss)
        seconds = (time.monotonic() - start) / self.settings["calibration_steps"]
        for tensor in self.optimizer.state.values():
            tensor.zero_()
        return max(1, int(max_minutes * 60 / seconds)), seconds


def run(trainer: Trainer, progress: Progress, budget: float | None, out: Path, export: Callable[[], None]) -> None:
    """Train from `progress` to the end. `budget`: seconds, None: unlimited."""
    settings, before = trainer.settings, progress.seconds
    phase = trainer.phases[1] if progress.long_steps else trainer.phases[0]
    source = trainer.batches(phase, progress.steps, progress.long_steps or progress.step)
    start = logged_at = exported = time.monotonic()
    logged_step, losses = progress.step, list[torch.Tensor]()
    log = (out / "log.jsonl").open("a", encoding="utf-8")
    while progress.step < progress.steps:
        by_steps = progress.step / progress.steps
        by_clock = progress.seconds / budget if budget else 0.0
        if by_clock >= 1:
            break
        progress.clock_bound |= by_clock > by_steps + 0.02
        # small lags behind the clock are noise; only larger ones may change the schedule
        at = by_clock if by_clock > by_steps + 0.02 else by_steps
        scale = schedule(at, settings)
        if phase is trainer.phases[0] and at >= phase.share:
            phase = trainer.phases[1]
            source = trainer.batches(phase, progress.steps)
            print(f"now training on rows of {phase.row_tokens} tokens", flush=True)
        losses.append(trainer.gradients(next(source), phase.micro_rows))
        progress.step += 1
        progress.long_steps += phase is trainer.phases[1]
        trainer.optimizer.step(progress.step, scale, trainer.pool)
        progress.tokens += phase.step_tokens
        now = time.monotonic()
        progress.seconds = before + now - start
        if now - logged_at >= settings["log_seconds"] or progress.step == progress.steps:
            speed = (progress.step - logged_step) * phase.step_tokens / (now - logged_at)
            left = (progress.steps - progress.step) * phase.step_tokens / speed
            left = min(left, budget - progress.seconds) if budget else left
            record: dict[str, Any] = {
                "step": progress.step,
                "loss": round(float(torch.stack(losses).mean()), 4),
                "lr": round(scale, 4),
                "tokens_per_second": round(speed),
                "seconds": round(progress.seconds, 1),
            }
            log.write(json.dumps(record) + "\n")
            log.flush()
            print(
                f"step {progress.step}/{progress.steps}  loss {record['loss']:.3f}  lr ×{scale:.2f}  "
                f"{speed:.0f} tokens/s  {left / 60:.1f} min left",
                flush=True,
            )
            logged_at, logged_step, losses = now, progress.step, []
        if now - exported >= settings["export_minutes"] * 60:
            save_checkpoint(out / "checkpoint", trainer.model, trainer.optimizer, progress)
            export()
            exported = time.monotonic()
    log.close()
    progress.tokens_per_second = round(progress.tokens / progress.seconds, 1) if progress.seconds else 0.0
    save_checkpoint(out / "checkpoint", trainer.model, trainer.optimizer, progress)
    export()


def main(arguments: list[str] | None = None) -> None:
    """Parse the arguments (None: the command line) and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="folder with the corpora")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--sibling", metavar="NAME", help="train this sibling instead of the bundled model")
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints and the log")
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder with tokenizer.json")
    parser.add_argument("--export", type=Path, help="folder for the model (default: OUT/export)")
    parser.add_argument("--max-minutes", type=float, help="replaces max_minutes of the configuration")
    parser.add_argument(
        "--steps", type=int, help="replaces steps of the configuration; the clock is ignored without --max-minutes"
    )
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint in OUT")
    parser.add_argument("--variant", metavar="NAME", help="a variant of the configuration")
    parser.add_argument("--packed", type=Path, metavar="FILE", help="rows of training.pack instead of the corpora")
    args = parser.parse_args(arguments)
    if (args.corpus is None) == (args.packed is None):
        parser.error("give --corpus or --packed")
    config = load_config(args.config, args.sibling, args.variant)
    settings = config["train"]
    max_minutes = args.max_minutes if args.max_minutes is not None else settings["max_minutes"]
    steps = args.steps if args.steps is not None else settings["steps"]
    if not args.resume and (args.out / "checkpoint" / PROGRESS).exists():
        parser.error(f"{args.out} already has a checkpoint; use --resume or another folder")
    args.out.mkdir(parents=True, exist_ok=True)

    torch.set_num_threads(1)  # the parallelism is in Trainer.gradients
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    if args.packed:
        packed = read_packed(args.packed)
        phases = read_phases(settings, lambda length: packed[length].to(device))
    else:
        print("reading and encoding the corpus …", flush=True)
        corpus = read_split(args.corpus, config["data"])
        phases = read_phases(settings, lambda length: encode_corpus(corpus, tokenizer, length))
    trainer = Trainer(config, phases, tokenizer, device)
    parameters = sum(p.numel() for p in trainer.parameters)
    print(f"{parameters:,} parameters on {device}", flush=True)
    save_record(args.out, parameters, device)

    trainer.warm_up()
    if args.resume:
        progress = load_checkpoint(args.out / "checkpoint", trainer.model, trainer.optimizer)
    else:
        if not steps:
            print("calibrating …", flush=True)
            fixed, seconds = trainer.calibrate(max_minutes)
            print(f"{seconds:.2f} s a step: {fixed} steps in {max_minutes:g} minutes", flush=True)
        progress = Progress(steps or fixed, 0, 0, 0.0, 0, False, 0.0)
    # a step count without --max-minutes repeats a run, however long it takes
    budget = None if steps and args.max_minutes is None else max_minutes * 60
    run(
        trainer,
        progress,
        budget,
        args.out,
        lambda: export_model(trainer.model, args.export or args.out / "export", config["model"]["dtype"]),
    )
    print(f"done: {progress.step} steps, {progress.tokens:,} tokens, {progress.seconds / 60:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
