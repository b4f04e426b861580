"""Calls that operating systems offer differently: processors, memory shared between processes, file descriptors.

Every use of a call that only some systems have stands here, so that the rest runs on Linux and macOS alike
(`mypy --platform darwin` refuses it elsewhere).
"""

from __future__ import annotations

import fcntl
import os
import platform
import socket
import sys
import tempfile
from pathlib import Path


def processors() -> list[int]:
    """Return the ids of the processors that this process may run on; all of the machine where the system has no such
    limit.
    """
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def run_on(ids: list[int]) -> None:
    """Bind this process to processors; no-op where the system cannot."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, ids)


def processor_name() -> str:
    """Return the processor's name as the system gives it, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def instructions() -> str:
    """Return the processor's instruction sets as Linux names them, separated by spaces; elsewhere its family."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def child_environment(**more: str) -> dict[str, str]:
    """Return the environment of a Python process that runs a module of this package: `[python, "-m", module]`.

    It imports this package, wherever that lies, and nothing from its working directory: that may be a folder of foreign
    files, such as a downloaded model.
    """
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", **more}


def shared_library(name: str) -> str:
    """Return the file name of a shared library: libNAME.so or libNAME.dylib."""
    return f"lib{name}.dylib" if sys.platform == "darwin" else f"lib{name}.so"


def anonymous_file(num_bytes: int) -> tuple[int, int]:
    """Create a file of zeros without a name and return two descriptors of it: to write, and to read alone.

    It lies in memory and keeps its size where the system can do that (Linux: a sealed memfd), else in the folder of
    temporary files. The caller closes both descriptors.

    Raises:
        OSError: there is no room for it.
    """
    if sys.platform == "linux":
        file = os.memfd_create("kvtheater-pools", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(file, num_bytes)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        return file, os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC)
    file, path = tempfile.mkstemp(prefix="kvtheater-")
    try:
        os.ftruncate(file, num_bytes)
        return file, os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.unlink(path)


def keeps_its_size(file: int) -> bool:
    """Return whether a file of another process cannot be cut short while this one has it mapped.

    Where the system has no seals the other process is trusted: it is one of this program's own.
    """
    if sys.platform == "linux":
        fixed = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
        return fcntl.fcntl(file, fcntl.F_GET_SEALS) & fixed == fixed
    return True


def receive_flags() -> int:
    """Return flags of `recvmsg` for a socket that descriptors come from: does not wait, and processes that are started
    later do not inherit them, where the system can do that at once.
    """
    if sys.platform == "linux":
        return socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    return socket.MSG_DONTWAIT
