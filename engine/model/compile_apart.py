"""Compiling a model in a process of its own, for a server that has not needed torch's compiler yet.

    this process                       python -m engine.model.compile_apart
      what was opened   -- stdin -->     opens the same model, compiles it, keeps the libraries (`kept`)
      finds them there  <-- ends --

Tracing and compiling take hundreds of megabytes that a process does not give back; that one ends. Meanwhile it has the
weights a second time.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

import msgspec
import torch

from engine.model.light_transformers import COMPILER, LIGHT
from engine.model.loaded import Opened

log = logging.getLogger(__name__)
# Whether this processor multiplies bfloat16 and bytes: compiled code here computes in float32, and torch's compiler
# would try these instructions out, which takes seconds.
ISA_QUESTIONS = ("_is_avx512_bf16_supported", "_is_vnni_supported")


class _Task(msgspec.Struct, frozen=True):
    opened: Opened
    num_threads: int


def compile_apart(opened: Opened) -> bool:
    """Have what was opened compiled by another process; whether it says that this is done. It inherits this thread's
    priority, and ends when this process does.

    Only a process of this program's own does it, and only before it has the compiler itself.
    """
    if not os.environ.get(LIGHT) or COMPILER in sys.modules:
        return False
    task = msgspec.json.encode(_Task(opened, torch.get_num_threads()))
    command = [sys.executable, "-m", "engine.model.compile_apart"]
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as made:
            assert made.stdin is not None and made.stdout is not None
            made.stdin.write(task + b"\n")
            made.stdin.flush()  # and stays open for as long as somebody waits
            said = made.stdout.read().decode(errors="replace")
    except OSError as error:
        said = str(error)
    else:
        if made.returncode == 0:
            return True
    log.info("no process of its own compiled %s: %s", opened.name, " ".join(said.split())[-200:])
    return False


def main() -> int:
    """Do the task that comes on standard input; ends when that does."""
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=_Task)
    threading.Thread(target=_end_with_input, daemon=True).start()
    from engine.model.compiled import compile_and_keep
    from engine.model.loader import load_model

    torch.set_num_threads(task.num_threads)
    for question in ISA_QUESTIONS:
        setattr(torch.cpu, question, lambda: False)
    opened = task.opened
    try:
        compile_and_keep(load_model(opened.name, opened.dtype, "cpu", opened.revision))
    except Exception as error:  # a compiler may raise anything
        print(f"{type(error).__name__}: {error}", flush=True)
        return 1
    return 0


def _end_with_input() -> None:
    while os.read(0, 1):  # not by `sys.stdin`, whose lock this thread would hold when the program ends
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
