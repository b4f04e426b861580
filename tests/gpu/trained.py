"""Training of the bundled model by training/ within the available time. The checkpoint is written to OUT."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path

from torch import Tensor

from tests.gpu.results import Run, Skipped
from training import train
from training.data import rows
from training.packed import packed_rows, write_packed

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "training" / "bundled.toml"
TOKENIZER = ROOT / "engine" / "model" / "bundled"
AROUND = 45.0  # seconds for imports, two compilations and the export, besides training


def run(run: Run) -> None:
    """Train, and report the progress."""
    with run.trying("training"):
        packed = Path(run.options["packed"]) if "packed" in run.options else tiny(run) if run.tiny else None
        if packed is None:
            raise Skipped("no packed tokens were given: --packed FILE, made by python -m training.pack")
        out = run.out / "trained"
        length = ["--steps", "3"] if run.tiny else ["--max-minutes", f"{(run.seconds_left - AROUND) / 60:.2f}"]
        train.main(
            [
                *(
                    "--config",
                    str(CONFIG),
                    "--variant",
                    "tiny" if run.tiny else "gpu",
                    "--packed",
                    str(packed),
                    *length,
                ),
                *("--tokenizer", str(TOKENIZER), "--out", str(out), "--export", str(out / "model")),
            ]
        )
        progress = json.loads((out / "checkpoint" / "progress.json").read_text(encoding="utf-8"))
        losses = [json.loads(line)["loss"] for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        run.add(
            "training",
            "measured",
            f"{progress['step']} steps, {progress['tokens']:,} tokens, {progress['tokens_per_second']:,.0f} a second, "
            f"loss {losses[-1]:.3f}",
            progress=progress,
            losses=losses,
        )


def tiny(run: Run) -> Path:
    """Write a packed file of random documents."""
    draw = random.Random(0)
    stream = [[draw.randrange(300, 8192) for _ in range(draw.randrange(5, 60))] for _ in range(400)]
    path = run.out / "packed.safetensors"
    tensors: dict[str, Tensor] = {}
    for length in (64, 128):
        tensors |= packed_rows(list(islice(rows(stream, length), 24)), length, 0)
    write_packed(tensors, path)
    return path
