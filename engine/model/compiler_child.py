"""Main program of the process that compiles for a server (`compile_in_subprocess`)."""

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

# Probes for bfloat16 and byte products. Compiled code here computes in float32, so they are disabled: torch's compiler
# takes seconds for them.
ISA_PROBES = ("_is_avx512_bf16_supported", "_is_vnni_supported")
COMPILERS = ("torch._inductor.compile_fx", "torch._inductor.codegen.cpp_wrapper_cpu")  # modules that lowering needs
CAN_FORK = sys.platform == "linux"
CHILD_NICENESS = 5  # the child's library of one token takes less time than the other


def main() -> int:
    """Run the task read from standard input; the process ends when standard input closes."""
    gc.disable()  # the process is short-lived, and full collections with torch imported take a tenth of its time
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    with tempfile.TemporaryDirectory(prefix="kvtheater-compiled-") as folder:
        tempfile.tempdir = folder  # the folder of all temporary files, so that none outlives this process
        # started before torch is imported, which takes seconds in which the server may stop
        threading.Thread(target=_end_with_input, args=(folder,), daemon=True).start()
        try:
            _do(task)
        except Exception as error:  # a compiler may raise anything
            print(f"{type(error).__name__}: {error}", flush=True)
            return 1
    return 0


def _do(task: Task) -> None:
    import torch

    from engine.model.built_library import read_library
    from engine.model.compiled import compile_one, compile_to_cache
    from engine.model.light_transformers import import_compiler
    from engine.model.loader import load_model
    from engine.model.native import native_kernels

    if task.only_without_gpu and torch.cuda.is_available():
        raise ValueError("there is a GPU")
    for probe in ISA_PROBES:
        setattr(torch.cpu, probe, lambda: False)
    num_threads = task.num_threads or torch.get_num_threads()
    torch.set_num_threads(1)  # a forked child would not have the other threads
    kernels = threading.Thread(target=native_kernels)
    kernels.start()  # compiles while this thread loads the model
    model = load_model(task.name, task.dtype, "cpu", task.revision)
    if not task.is_shared or not CAN_FORK:
        torch.set_num_threads(num_threads)
        return compile_to_cache(model)
    import_compiler()
    for name in COMPILERS:
        importlib.import_module(name)
    kernels.join()
    with tempfile.TemporaryDirectory() as folder:

        def in_child() -> None:
            torch.set_num_threads(num_threads)
            compile_one(model, Path(folder))

        child = _Child(in_child)
        torch.set_num_threads(num_threads)
        compile_to_cache(model, lambda: read_library(Path(folder) / "one.so") if child.succeeds() else None)


class _Child:
    """Forked copy of this process that runs `work` and exits. It ends when this process does, if not before."""

    def __init__(self, work: Callable[[], object]) -> None:
        """Fork; the child runs `work`. Raises OSError if no process can be started."""
        read_end, write_end = os.pipe()  # only the parent holds `write_end`, so the child's read returns when it ends
        self._id = os.fork()
        if self._id:
            os.close(read_end)
            return
        try:
            os.close(write_end)
            os.nice(CHILD_NICENESS)
            threading.Thread(target=_exit_with_parent, args=(read_end,), daemon=True).start()
            work()
        except BaseException:  # a compiler may raise anything, and the child must not continue the parent's code
            os._exit(1)
        os._exit(0)

    def succeeds(self) -> bool:
        """Wait for the child; return whether it succeeded."""
        return os.waitpid(self._id, 0)[1] == 0


def _exit_with_parent(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(1)


def _end_with_input(folder: str) -> None:
    while os.read(0, 1):  # does not use `sys.stdin`, whose lock this thread would hold at exit
        pass
    shutil.rmtree(folder, ignore_errors=True)
    if os.getpgrp() == os.getpid():  # also ends its child and the C compilers that it started
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # skips the interpreter's shutdown, which takes a tenth of a first start with torch imported
