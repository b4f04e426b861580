"""C and C++ compilers of this machine. Imports no torch: a server asks before it has imported it."""

from __future__ import annotations

import os
import shutil
import sys


def c_compiler() -> str | None:
    """Return the path of the C compiler that is used; None: there is none."""
    return next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)


def cxx_compiler() -> str | None:
    """Return the path of the C++ compiler that TorchInductor takes (`torch._inductor.config.cpp.cxx`); None: none."""
    return shutil.which(os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++"))
