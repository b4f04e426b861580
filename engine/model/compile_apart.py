"""Compiling a model in a process of its own, for a server that has not needed torch's compiler yet.

    this process                       python -m engine.model.compile_apart
      what was opened   -- stdin -->     opens the same model, compiles it, keeps the libraries (`kept`)
      finds them there  <-- ends --

Tracing and compiling take hundreds of megabytes that a process does not give back; that one ends. Meanwhile it has the
weights a second time. Where they are small, it has a third process make the library of one token at the same time: of
what takes long, lowering to C++, each does its half on a core of its own.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import psutil
import torch

from engine.model.light_transformers import COMPILER, LIGHT
from engine.model.loaded import LoadedModel, Opened
from engine.model.made_library import MadeLibrary, read_again

log = logging.getLogger(__name__)
SMALL = 1 / 16  # of the memory that is free: weights that a third process may have once more
# Whether this processor multiplies bfloat16 and bytes: compiled code here computes in float32, and torch's compiler
# would try these instructions out, which takes seconds.
ISA_QUESTIONS = ("_is_avx512_bf16_supported", "_is_vnni_supported")


class _Task(msgspec.Struct, frozen=True):
    opened: Opened
    num_threads: int
    is_shared: bool = False  # a third process makes the library of one token meanwhile
    folder: str | None = None  # make that alone, into this folder


def compile_apart(model: LoadedModel) -> bool:
    """Have a model that was opened compiled by another process; whether it says that this is done. It inherits this
    thread's priority, and ends when this process does.

    Only a process of this program's own does it, and only before it has the compiler itself.
    """
    if model.opened is None or not os.environ.get(LIGHT) or COMPILER in sys.modules:
        return False
    num_bytes = sum(parameter.nbytes for parameter in model.module.parameters())
    is_shared = (os.cpu_count() or 1) > 1 and num_bytes <= SMALL * psutil.virtual_memory().available
    why = _done(_Task(model.opened, torch.get_num_threads(), is_shared))
    if why:
        log.info("no process of its own compiled %s: %s", model.opened.name, why)
    return not why


def _done(task: _Task) -> str:
    """Have a process do it, and wait; "" or why it did not."""
    command = [sys.executable, "-m", "engine.model.compile_apart"]
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as made:
            assert made.stdin is not None and made.stdout is not None
            made.stdin.write(msgspec.json.encode(task) + b"\n")
            made.stdin.flush()  # and stays open for as long as somebody waits
            said = made.stdout.read().decode(errors="replace")
    except OSError as error:
        return str(error)
    return "" if made.returncode == 0 else " ".join(said.split())[-200:] or f"it ended with {made.returncode}"


def main() -> int:
    """Do the task that comes on standard input; ends when that does."""
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=_Task)
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        if task.is_shared:
            with tempfile.TemporaryDirectory(prefix="kvtheater-compiled-") as folder, ThreadPoolExecutor(1) as waits:
                one = waits.submit(_done, msgspec.structs.replace(task, is_shared=False, folder=folder))
                _compile(task, lambda: None if one.result() else read_again(Path(folder) / "one.so"))
        else:
            _compile(task, None)
    except Exception as error:  # a compiler may raise anything
        print(f"{type(error).__name__}: {error}", flush=True)
        return 1
    return 0


def _compile(task: _Task, one: Callable[[], MadeLibrary | None] | None) -> None:
    from engine.model.compiled import compile_and_keep, compile_one
    from engine.model.loader import load_model

    torch.set_num_threads(task.num_threads)
    for question in ISA_QUESTIONS:
        setattr(torch.cpu, question, lambda: False)
    model = load_model(task.opened.name, task.opened.dtype, "cpu", task.opened.revision)
    if task.folder is not None:
        compile_one(model, Path(task.folder))
    else:
        compile_and_keep(model, one)


def _end_with_input() -> None:
    while os.read(0, 1):  # not by `sys.stdin`, whose lock this thread would hold when the program ends
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
