"""C and C++ compilers of this machine. Does not import torch: a server calls this before importing it."""

from __future__ import annotations

import os
import shutil
import sys


def c_compiler() -> str | None:
    """Return the path of the C compiler, or None."""
    return next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)


def cxx_compiler() -> str | None:
    """Return the path of the C++ compiler of TorchInductor (`torch._inductor.config.cpp.cxx`), or None."""
    return shutil.which(os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++"))
