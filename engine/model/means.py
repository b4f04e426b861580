"""Requirements for compiling a model on the CPU: a compiler, disk space and memory. Does not import torch."""

from __future__ import annotations

import shutil
import tempfile

from engine.system.cgroup import memory
from engine.system.compilers import cxx_compiler

MIB = 1 << 20
# Sources, objects and libraries of the bundled model, with 4 layers, take 0.9 MiB while they are built (sampled every
# half second). They grow with the number of layers and contain no weights.
DISK_BYTES = 8 * MIB
# A control group that served and compiled the bundled model used 1,056 MiB; one that only served it used 378 MiB.
MEMORY = 704 * MIB


class CannotCompile(RuntimeError):
    """A requirement for compiling is missing; the message is one sentence."""


def missing_requirement() -> str:
    """Return the missing requirement and its remedy in one sentence; "" if none is missing."""
    if cxx_compiler() is None:
        return "no C++ compiler was found: install g++ (macOS: the command line tools), or name one in CXX"
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < DISK_BYTES:
        needed = DISK_BYTES // MIB
        return f"{folder} has {free // MIB} MiB free, compiling takes {needed}: name another folder in TMPDIR"
    available = memory().available
    if available < MEMORY:  # the system would kill the compiler or the server
        return f"{available // MIB} MiB of memory are free, compiling takes {MEMORY // MIB}"
    return ""
