"""Main program of the process that compiles for a server: `python -m engine.model.compiler_child` (`compile_apart`)."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.model.compiler_process import Task

# Probes for bfloat16 and byte products: compiled code here computes in float32, and torch's compiler would test these
# instructions, which takes seconds.
ISA_QUESTIONS = ("_is_avx512_bf16_supported", "_is_vnni_supported")
COMPILERS = ("torch._inductor.compile_fx", "torch._inductor.codegen.cpp_wrapper_cpu")  # modules that lowering needs
CAN_FORK = sys.platform == "linux"
AFTER = 5  # niceness of the child, whose library of one token takes less time than the other


def main() -> int:
    """Run the task that is read from standard input; the process ends when standard input closes."""
    gc.disable()  # the process ends soon, and full collections with torch imported take a tenth of its time
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    with tempfile.TemporaryDirectory(prefix="kvtheater-compiled-") as folder:
        tempfile.tempdir = folder  # every temporary file is here, so that none outlives this process
        # before torch is imported, which takes seconds in which the server may stop
        threading.Thread(target=_end_with_input, args=(folder,), daemon=True).start()
        try:
            _do(task)
        except Exception as error:  # a compiler may raise anything
            print(f"{type(error).__name__}: {error}", flush=True)
            return 1
    return 0


def _do(task: Task) -> None:
    import torch

    from engine.model.built_library import read_again
    from engine.model.compiled import compile_and_keep, compile_one
    from engine.model.light_transformers import bring_compiler
    from engine.model.loader import load_model
    from engine.model.native import native_kernels

    if task.only_without_gpu and torch.cuda.is_available():
        raise ValueError("there is a GPU")
    for question in ISA_QUESTIONS:
        setattr(torch.cpu, question, lambda: False)
    num_threads = task.num_threads or torch.get_num_threads()
    torch.set_num_threads(1)  # a forked child would not have the other threads
    kernels = threading.Thread(target=native_kernels)
    kernels.start()  # compiles while this thread loads the model
    model = load_model(task.name, task.dtype, "cpu", task.revision)
    if not task.is_shared or not CAN_FORK:
        torch.set_num_threads(num_threads)
        return compile_and_keep(model)
    bring_compiler()
    for name in COMPILERS:
        importlib.import_module(name)
    kernels.join()
    with tempfile.TemporaryDirectory() as folder:

        def in_child() -> None:
            torch.set_num_threads(num_threads)
            compile_one(model, Path(folder))

        child = _Child(in_child)
        torch.set_num_threads(num_threads)
        compile_and_keep(model, lambda: read_again(Path(folder) / "one.so") if child.succeeds() else None)


class _Child:
    """Forked copy of this process that runs `work` and exits, at the latest when this process does."""

    def __init__(self, work: Callable[[], object]) -> None:
        """Fork; the child runs `work`. Raises OSError if no process can be started."""
        here, its = os.pipe()  # only this process holds `its`, so reading `here` ends when it does
        self._id = os.fork()
        if self._id:
            os.close(here)
            return
        try:
            os.close(its)
            os.nice(AFTER)
            threading.Thread(target=_end_with, args=(here,), daemon=True).start()
            work()
        except BaseException:  # a compiler may raise anything, and the copy must not run on
            os._exit(1)
        os._exit(0)

    def succeeds(self) -> bool:
        """Wait for the child; return whether it succeeded."""
        return os.waitpid(self._id, 0)[1] == 0


def _end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(1)


def _end_with_input(folder: str) -> None:
    while os.read(0, 1):  # not through `sys.stdin`, whose lock this thread would hold at exit
        pass
    shutil.rmtree(folder, ignore_errors=True)
    if os.getpgrp() == os.getpid():  # also ends its child and the C compilers that it started
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # skips the interpreter's shutdown, which takes a tenth of a first start with torch imported
