"""Client of the process that compiles a model for a server; `compiler_child` is the main program of that process.

This module does not import torch: if a model was never compiled on this machine, the server starts the process before
it imports torch itself, so that both run concurrently.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from engine.model.compile_cache import all_facts
from engine.model.means import missing_requirement
from engine.model.own_process import OWN_PROCESS
from engine.model.shipped import shipped_model
from engine.system.cgroup import cores, memory
from engine.system.host import child_environment

SMALL = 1 / 16  # share of the free memory that weights may take to be loaded in another process
OPENED = "opened"  # key in an entry's facts of its model's name


class Task(msgspec.Struct, frozen=True):
    """Model to compile, by the arguments of `load_model`."""

    name: str
    dtype: str
    revision: str | None = None
    num_threads: int | None = None  # threads of a step; None: torch's default in that process
    is_shared: bool = False  # whether a child of the process builds the library of one token in parallel
    only_without_gpu: bool = False  # whether to compile nothing if there is a GPU


class CompilerProcess:
    """Compiler process. It inherits the priority of the thread that starts it, and ends when this process does."""

    def __init__(self, task: Task) -> None:
        """Start the process with its task. Raises OSError if no process can be started."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.model.compiler_child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=child_environment(),
            process_group=0,  # the terminal sends Ctrl-C to the server only; the child ends when the server does
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(task) + b"\n")
        self._process.stdin.flush()  # stdin stays open, since the child ends when it closes

    def wait(self) -> str:
        """Wait until the process ends; return "", or the reason of its failure."""
        with self._process as child:
            assert child.stdout is not None
            output = child.stdout.read().decode(errors="replace")
        return "" if child.returncode == 0 else " ".join(output.split())[-200:] or f"exit code {child.returncode}"


_started: dict[tuple[str, str, str | None], CompilerProcess] = {}


def start_early(name: str, dtype: str, device: str) -> None:
    """Start to compile a model that a server is about to load, if the model is small and local, the cache has no entry
    for it, and there is a spare core.
    """
    if not os.environ.get(OWN_PROCESS) or device not in ("auto", "cpu") or cores() < 2 or missing_requirement():
        return
    if any(facts.get(OPENED) == name for facts in all_facts()):
        return
    shipped = shipped_model(name)
    files = (shipped.folder if shipped else Path(name)).glob("*.safetensors")
    num_bytes = sum(file.stat().st_size for file in files)
    if not 0 < num_bytes <= SMALL * memory().available:
        return
    with contextlib.suppress(OSError):
        task = Task(name, dtype, is_shared=True, only_without_gpu=True)
        _started[name, dtype, None] = CompilerProcess(task)


def take_early_process(name: str, dtype: str, revision: str | None) -> CompilerProcess | None:
    """Remove and return the process that `start_early` started for this model, or None."""
    return _started.pop((name, dtype, revision), None)
