"""Checkpoints: weights and optimizer state as safetensors, progress as JSON, without pickle."""

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
    """Progress of a run. `steps`: length of the schedule; a rerun with the same number repeats the run."""

    steps: int
    step: int
    long_steps: int  # number of steps on long rows
    seconds: float  # training time over all parts of a resumed run, without compilation and setup
    tokens: int
    clock_bound: bool  # whether the clock instead of the step count has determined the learning rate
    tokens_per_second: float


def save_checkpoint(folder: Path, model: PreTrainedModel, optimizer: Optimizer, progress: Progress) -> None:
    """Write a checkpoint. The previous one remains valid until this one is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    # the names contain the step number; progress.json, written last, determines which files are valid
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
    """Load the last checkpoint into `model` and `optimizer`. Raises FileNotFoundError: there is none."""
    progress = Progress(**json.loads((folder / PROGRESS).read_text(encoding="utf-8")))
    mark = f"{progress.step:07d}."
    weights = load_file(folder / (mark + WEIGHTS))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    for name, tensor in load_file(folder / (mark + STATE)).items():
        optimizer.state[name].copy_(tensor)
    return progress
