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
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import torch

from engine.model.compiler_process import SMALL, CompilerProcess, Task, begun_early
from engine.model.light_name import LIGHT
from engine.model.light_transformers import COMPILER
from engine.model.loaded import LoadedModel
from engine.model.made_library import MadeLibrary, read_again

log = logging.getLogger(__name__)
# Whether this processor multiplies bfloat16 and bytes: compiled code here computes in float32, and torch's compiler
# would try these instructions out, which takes seconds.
ISA_QUESTIONS = ("_is_avx512_bf16_supported", "_is_vnni_supported")


def compile_apart(model: LoadedModel) -> bool:
    """Have a model that was opened compiled by another process, one that was begun for it before or a new one; whether
    it says that this is done.

    Only a process of this program's own does it, and only before it has the compiler itself.
    """
    opened = model.opened
    if opened is None or not os.environ.get(LIGHT) or COMPILER in sys.modules:
        return False
    num_bytes = sum(parameter.nbytes for parameter in model.module.parameters())
    is_shared = (os.cpu_count() or 1) > 1 and num_bytes <= SMALL * psutil.virtual_memory().available
    given = opened.name, opened.dtype, opened.revision
    try:
        process = begun_early(*given) or CompilerProcess(Task(*given, torch.get_num_threads(), is_shared))
        why = process.wait()
    except OSError as error:
        why = str(error)
    if why:
        log.info("no process of its own compiled %s: %s", opened.name, why)
    return not why


def main() -> int:
    """Do the task that comes on standard input; ends when that does."""
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    with tempfile.TemporaryDirectory(prefix="kvtheater-compiled-") as folder:
        tempfile.tempdir = folder  # of all that is made here, so that it goes with this process however that ends
        threading.Thread(target=_end_with_input, args=(folder,), daemon=True).start()
        try:
            _do(task)
        except Exception as error:  # a compiler may raise anything
            print(f"{type(error).__name__}: {error}", flush=True)
            return 1
    return 0


def _do(task: Task) -> None:
    if task.only_without_gpu and torch.cuda.is_available():
        raise ValueError("there is a GPU")
    if not task.is_shared:
        return _compile(task, None)
    with tempfile.TemporaryDirectory() as folder:
        third = CompilerProcess(msgspec.structs.replace(task, is_shared=False, folder=folder))
        _compile(task, lambda: None if third.wait() else read_again(Path(folder) / "one.so"))


def _compile(task: Task, one: Callable[[], MadeLibrary | None] | None) -> None:
    from engine.model.compiled import compile_and_keep, compile_one
    from engine.model.loader import load_model

    if task.num_threads is not None:
        torch.set_num_threads(task.num_threads)
    for question in ISA_QUESTIONS:
        setattr(torch.cpu, question, lambda: False)
    model = load_model(task.name, task.dtype, "cpu", task.revision)
    if task.folder is not None:
        compile_one(model, Path(task.folder))
    else:
        compile_and_keep(model, one)


def _end_with_input(folder: str) -> None:
    while os.read(0, 1):  # not by `sys.stdin`, whose lock this thread would hold when the program ends
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
