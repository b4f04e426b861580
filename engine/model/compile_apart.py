"""Compiling a model in a process of its own, for a server that has not needed torch's compiler yet.

    this process                       python -m engine.model.compile_apart
      what was opened   -- stdin -->     opens the same model, compiles it, keeps the libraries (`kept`)
      finds them there  <-- ends --

Tracing and compiling take hundreds of megabytes that a process does not give back; that one ends. Meanwhile it has the
weights a second time. Where they are small, it forks when it has opened the model and imported the compiler, and its
child makes the library of one token at the same time: of what takes long, lowering to C++, each does its half on a core
of its own.
"""

from __future__ import annotations

import gc
import importlib
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
from engine.model.light_transformers import COMPILER, bring_compiler
from engine.model.loaded import LoadedModel
from engine.model.made_library import read_again
from engine.model.native import native_kernels

log = logging.getLogger(__name__)
# Whether this processor multiplies bfloat16 and bytes: compiled code here computes in float32, and torch's compiler
# would try these instructions out, which takes seconds.
ISA_QUESTIONS = ("_is_avx512_bf16_supported", "_is_vnni_supported")
COMPILERS = ("torch._inductor.compile_fx", "torch._inductor.codegen.cpp_wrapper_cpu")  # what lowering needs
CAN_FORK = sys.platform == "linux"
AFTER = 5  # steps of priority by which the library of one token comes after the other, which takes longer


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
    gc.disable()  # it ends soon, and full collections among all that torch has take a tenth of its time
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
    from engine.model.compiled import compile_and_keep, compile_one
    from engine.model.loader import load_model

    if task.only_without_gpu and torch.cuda.is_available():
        raise ValueError("there is a GPU")
    for question in ISA_QUESTIONS:
        setattr(torch.cpu, question, lambda: False)
    num_threads = task.num_threads or torch.get_num_threads()
    torch.set_num_threads(1)  # a child has none of the threads that there are before it
    kernels = threading.Thread(target=native_kernels)
    kernels.start()  # the compiler is at work while this thread opens the model
    model = load_model(task.name, task.dtype, "cpu", task.revision)
    if not task.is_shared or not CAN_FORK:
        torch.set_num_threads(num_threads)
        return compile_and_keep(model)
    bring_compiler()
    for name in COMPILERS:
        importlib.import_module(name)
    kernels.join()
    with tempfile.TemporaryDirectory() as folder:
        child = _Child(lambda: compile_one(model, Path(folder)), num_threads)
        torch.set_num_threads(num_threads)
        compile_and_keep(model, lambda: read_again(Path(folder) / "one.so") if child.succeeds() else None)


class _Child:
    """A copy of this process that does something and ends; at the latest when this process does."""

    def __init__(self, work: Callable[[], object], num_threads: int) -> None:
        """OSError: no process can be begun."""
        here, its = os.pipe()  # `its` is held by this process alone, so that reading `here` ends with it
        self._id = os.fork()
        if self._id:
            os.close(here)
            return
        try:
            os.close(its)
            os.nice(AFTER)
            threading.Thread(target=_end_with, args=(here,), daemon=True).start()
            torch.set_num_threads(num_threads)
            work()
        except BaseException:  # a compiler may raise anything, and nothing may go on in the copy
            os._exit(1)
        os._exit(0)

    def succeeds(self) -> bool:
        """Whether it did, when it has ended."""
        return os.waitpid(self._id, 0)[1] == 0


def _end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(1)


def _end_with_input(folder: str) -> None:
    while os.read(0, 1):  # not by `sys.stdin`, whose lock this thread would hold when the program ends
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the interpreter would first visit all that torch has, which takes a tenth of a first start
