"""Checkpoints: weights and optimizer state as safetensors, everything else as JSON. Never pickle."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from training.optimizer import Optimizer

WEIGHTS, STATE, PROGRESS = "weights.safetensors", "optimizer.safetensors", "progress.json"


@dataclass(slots=True)
class Progress:
    """Progress of a run. `steps` is the schedule's length, fixed once; a rerun with it repeats the run."""

    steps: int
    step: int
    long_steps: int  # of `step`, those on long rows
    seconds: float  # spent training, over all parts of a resumed run, without compilation and set-up
    tokens: int
    clock_bound: bool  # whether the clock, not the step count, ever set the learning rate
    tokens_per_second: float


def save_checkpoint(folder: Path, model: PreTrainedModel, optimizer: Optimizer, progress: Progress) -> None:
    """Write a checkpoint; the previous one stays whole until this one is."""
    folder.mkdir(parents=True, exist_ok=True)
    # The step number in the names ties the three files together; progress.json, written last, says which count.
    mark = f"{progress.step:07d}."
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.named_parameters()}
    save_file(weights, folder / (mark + WEIGHTS))
    save_file({n: t.cpu().contiguous() for n, t in optimizer.state.items()}, folder / (mark + STATE))
    fresh = folder / (PROGRESS + ".new")
    fresh.write_text(json.dumps(asdict(progress), indent=2) + "\n", encoding="utf-8")
    os.replace(fresh, folder / PROGRESS)
    for old in folder.glob("*.safetensors"):
        if not old.name.startswith(mark):
            old.unlink()


def load_checkpoint(folder: Path, model: PreTrainedModel, optimizer: Optimizer) -> Progress:
    """Load the last checkpoint into `model` and `optimizer`. Raises `FileNotFoundError` if there is none."""
    progress = Progress(**json.loads((folder / PROGRESS).read_text(encoding="utf-8")))
    mark = f"{progress.step:07d}."
    weights = load_file(folder / (mark + WEIGHTS))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    for name, tensor in load_file(folder / (mark + STATE)).items():
        optimizer.state[name].copy_(tensor)
    return progress
