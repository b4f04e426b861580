"""Machine and versions of a benchmark, without anything that identifies a person."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import torch
from msgspec.structs import replace

from engine import __version__
from engine.bench.code import step_code_hash
from engine.bench.record import Environment
from engine.bench.scenario import Scenario
from engine.bench.text import Text
from engine.model import device as devices
from engine.setup.machine import machine_facts, measure_roofs

ROOT = Path(__file__).parents[2]
NO_GPU = Text(
    en="this scenario needs a GPU that torch can use, and there is none here",
    zh="此场景需要 torch 可用的 GPU，而这里没有",
)


def refusal(scenario: Scenario) -> Text | None:
    """Return why a scenario cannot run on this machine, or None."""
    return NO_GPU if scenario.needs_gpu and not torch.cuda.is_available() else None


class Sources(NamedTuple):
    """Version of the code that produced a figure."""

    commit: str | None  # None: not a repository
    modified: bool | None  # whether files differ from the commit


def sources() -> Sources:
    """Return the current version of the code."""
    commit = _git("rev-parse", "HEAD")
    return Sources(commit, bool(_git("status", "--porcelain", "--", "engine/*.py", "app/*.py")) if commit else None)


def environment(
    device: torch.device, dtype: torch.dtype, *, command: str, seed: int, quiet: bool, busy_cpus: float | None
) -> Environment:
    """Return the current environment. The first call measures the machine's roofs, which takes tenths of a second."""
    measure_roofs(device, dtype)
    machine = machine_facts(device, dtype)
    code = sources()
    return Environment(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        commit=code.commit,
        modified=code.modified,
        code=step_code_hash(),
        system=f"{platform.system()} {platform.machine()}",
        machine=replace(machine, versions={"kvtheater": __version__, **machine.versions}),
        num_cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=devices.ALLOCATOR.memory(torch.device("cpu")).total,
        seed=seed,
        quiet=quiet,
        busy_cpus=busy_cpus,
    )


def _git(*arguments: str) -> str | None:
    """Return git's output; None without git, or outside a repository."""
    if not (ROOT / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
