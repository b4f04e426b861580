"""Means to compile a model on the CPU: a compiler, and room for what it writes. Imports no torch."""

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
    """Something that compiling needs is not here; one sentence."""


def missing_means() -> str:
    """Return what compiling lacks here, one sentence that says what to do; "": nothing."""
    if cxx_compiler() is None:
        return "no C++ compiler was found: install g++ (macOS: the command line tools), or name one in CXX"
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        return f"{folder} has {free // MIB} MiB free, compiling takes {ROOM // MIB}: name another folder in TMPDIR"
    available = memory().available
    if available < MEMORY:  # the system would end the compiler, or the server, without a word
        return f"{available // MIB} MiB of memory are free, compiling takes {MEMORY // MIB}"
    return ""
