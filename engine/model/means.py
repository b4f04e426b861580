"""Means to compile a model on the CPU: a compiler, and room for what it writes. Imports no torch."""

from __future__ import annotations

import shutil
import tempfile

from engine.system.compilers import cxx_compiler

MIB = 1 << 20
# The bundled model's sources, objects and libraries take 40 MiB in the temporary folder while they are made.
ROOM = 64 * MIB


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
    return ""
