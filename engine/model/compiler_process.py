"""The process that compiles a model for a server, by what is written to it; `compiler_child` is what it does.

Begun here without torch: a server whose model has never been compiled on this machine begins it before it has imported
torch itself, so that both go on at the same time.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from engine.model.kept import facts_of_all
from engine.model.light_name import LIGHT
from engine.model.means import missing_means
from engine.model.shipped import shipped_model
from engine.system.cgroup import cores, memory
from engine.system.host import child_environment

SMALL = 1 / 16  # of the memory that is free: weights that more processes may have once more
OPENED = "opened"  # in what is noted of an entry: the name of its model


class Task(msgspec.Struct, frozen=True):
    """What to compile, as `load_model` was asked for it."""

    name: str
    dtype: str
    revision: str | None = None
    num_threads: int | None = None  # of a step; None: as many as torch takes there
    is_shared: bool = False  # a child of it makes the library of one token meanwhile
    only_without_gpu: bool = False  # nothing is compiled where there is a GPU


class CompilerProcess:
    """It inherits the priority of the thread that begins it, and ends when this process does."""

    def __init__(self, task: Task) -> None:
        """OSError: no process can be begun."""
        self._made = subprocess.Popen(
            [sys.executable, "-m", "engine.model.compiler_child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=child_environment(),
            process_group=0,  # a key that interrupts the server is not for it; it ends with the server
        )  # fmt: skip
        assert self._made.stdin is not None
        self._made.stdin.write(msgspec.json.encode(task) + b"\n")
        self._made.stdin.flush()  # and stays open for as long as somebody waits

    def wait(self) -> str:
        """Until it has ended: "" or why it did not do it."""
        with self._made as made:
            assert made.stdout is not None
            said = made.stdout.read().decode(errors="replace")
        return "" if made.returncode == 0 else " ".join(said.split())[-200:] or f"it ended with {made.returncode}"


_begun: dict[tuple[str, str, str | None], CompilerProcess] = {}


def begin_early(name: str, dtype: str, device: str) -> None:
    """Begin to compile a model that a server is about to open, where that is likely to be wanted: it is small and lies
    on this machine, nothing kept here is of it, and there is a processor to spare.
    """
    if not os.environ.get(LIGHT) or device not in ("auto", "cpu") or cores() < 2 or missing_means():
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


def begun_early(name: str, dtype: str, revision: str | None) -> CompilerProcess | None:
    """That of this model; it is handed over once."""
    return _begun.pop((name, dtype, revision), None)
