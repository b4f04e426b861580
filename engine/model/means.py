"""Requirements for compiling a model on the CPU: a compiler, disk space and memory. Imports no torch."""

from __future__ import annotations

import shutil
import tempfile

from engine.system.cgroup import memory
from engine.system.compilers import cxx_compiler

MIB = 1 << 20
# Sources, objects and libraries of the bundled model, of 4 layers, take 0.9 MiB while they are made (sampled each
# half second); they grow with the layers and hold no weights.
ROOM = 8 * MIB
# A control group in which the bundled model was served and compiled took 1,056 MiB, 378 of them when it was served.
MEMORY = 704 * MIB


class CannotCompile(RuntimeError):
    """A requirement for compiling is missing; one sentence."""


def missing_means() -> str:
    """Return the missing requirement and its remedy in one sentence; "" if there is none."""
    if cxx_compiler() is None:
        return "no C++ compiler was found: install g++ (macOS: the command line tools), or name one in CXX"
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        return f"{folder} has {free // MIB} MiB free, compiling takes {ROOM // MIB}: name another folder in TMPDIR"
    available = memory().available
    if available < MEMORY:  # the system would kill the compiler or the server
        return f"{available // MIB} MiB of memory are free, compiling takes {MEMORY // MIB}"
    return ""
