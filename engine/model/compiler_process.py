"""Client side of the process that compiles a model for a server; `compiler_child` is its main program.

This module does not import torch: a server whose model was never compiled on this machine starts the process before it
imports torch itself, so that both run concurrently.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from engine.model.compile_cache import facts_of_all
from engine.model.means import missing_means
from engine.model.own_process import OWN_PROCESS
from engine.model.shipped import shipped_model
from engine.system.cgroup import cores, memory
from engine.system.host import child_environment

SMALL = 1 / 16  # of the free memory: weights that may be loaded by one more process
OPENED = "opened"  # key in the facts of an entry: the name of its model


class Task(msgspec.Struct, frozen=True):
    """Model to compile, by the arguments of `load_model`."""

    name: str
    dtype: str
    revision: str | None = None
    num_threads: int | None = None  # threads of a step; None: torch's default there
    is_shared: bool = False  # a child of the process builds the library of one token in parallel
    only_without_gpu: bool = False  # compile nothing if there is a GPU


class CompilerProcess:
    """Compiler process. It inherits the priority of the thread that starts it, and ends when this process does."""

    def __init__(self, task: Task) -> None:
        """Start the process with its task. Raises OSError if no process can be started."""
        self._made = subprocess.Popen(
            [sys.executable, "-m", "engine.model.compiler_child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=child_environment(),
            process_group=0,  # Ctrl-C goes to the server alone; this process ends with it
        )  # fmt: skip
        assert self._made.stdin is not None
        self._made.stdin.write(msgspec.json.encode(task) + b"\n")
        self._made.stdin.flush()  # stdin stays open, since the child ends when it closes

    def wait(self) -> str:
        """Wait until the process ends; return "", or the reason of its failure."""
        with self._made as made:
            assert made.stdout is not None
            output = made.stdout.read().decode(errors="replace")
        return "" if made.returncode == 0 else " ".join(output.split())[-200:] or f"it ended with {made.returncode}"


_begun: dict[tuple[str, str, str | None], CompilerProcess] = {}


def start_early(name: str, dtype: str, device: str) -> None:
    """Start to compile a model that a server is about to load, if that is likely useful: the model is small and local,
    the cache has no entry of it, and there is a spare processor.
    """
    if not os.environ.get(OWN_PROCESS) or device not in ("auto", "cpu") or cores() < 2 or missing_means():
        return
    if any(facts.get(OPENED) == name for facts in facts_of_all()):
        return
    shipped = shipped_model(name)
    files = (shipped.folder if shipped else Path(name)).glob("*.safetensors")
    num_bytes = sum(file.stat().st_size for file in files)
    if not 0 < num_bytes <= SMALL * memory().available:
        return
    with contextlib.suppress(OSError):
        task = Task(name, dtype, is_shared=True, only_without_gpu=True)
        _begun[name, dtype, None] = CompilerProcess(task)


def take_early_process(name: str, dtype: str, revision: str | None) -> CompilerProcess | None:
    """Return and forget the process that `start_early` started for this model, or None."""
    return _begun.pop((name, dtype, revision), None)
