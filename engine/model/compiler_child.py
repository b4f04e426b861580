"""What a process does that compiles a model for a server: `python -m engine.model.compiler_child` (`compile_apart`)."""

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

# Whether this processor multiplies bfloat16 and bytes: compiled code here computes in float32, and torch's compiler
# would try these instructions out, which takes seconds.
ISA_QUESTIONS = ("_is_avx512_bf16_supported", "_is_vnni_supported")
COMPILERS = ("torch._inductor.compile_fx", "torch._inductor.codegen.cpp_wrapper_cpu")  # what lowering needs
CAN_FORK = sys.platform == "linux"
AFTER = 5  # steps of priority by which the library of one token comes after the other, which takes longer


def main() -> int:
    """Do the task that comes on standard input; ends when that does."""
    gc.disable()  # it ends soon, and full collections among all that torch has take a tenth of its time
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    with tempfile.TemporaryDirectory(prefix="kvtheater-compiled-") as folder:
        tempfile.tempdir = folder  # of all that is made here, so that it goes with this process however that ends
        # before torch is imported, which takes seconds in which the server may have been stopped
        threading.Thread(target=_end_with_input, args=(folder,), daemon=True).start()
        try:
            _do(task)
        except Exception as error:  # a compiler may raise anything
            print(f"{type(error).__name__}: {error}", flush=True)
            return 1
    return 0


def _do(task: Task) -> None:
    import torch

    from engine.model.compiled import compile_and_keep, compile_one
    from engine.model.light_transformers import bring_compiler
    from engine.model.loader import load_model
    from engine.model.made_library import read_again
    from engine.model.native import native_kernels

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

        def in_child() -> None:
            torch.set_num_threads(num_threads)
            compile_one(model, Path(folder))

        child = _Child(in_child)
        torch.set_num_threads(num_threads)
        compile_and_keep(model, lambda: read_again(Path(folder) / "one.so") if child.succeeds() else None)


class _Child:
    """A copy of this process that does something and ends; at the latest when this process does."""

    def __init__(self, work: Callable[[], object]) -> None:
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
    if os.getpgrp() == os.getpid():  # its copy and the C compilers that it has started end too
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the interpreter would first visit all that torch has, which takes a tenth of a first start
