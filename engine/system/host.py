"""System calls that differ between operating systems: processors, shared memory, file descriptors.

Calls that only some systems have are used only here, so that other code runs on Linux and macOS (`mypy --platform
darwin` checks this).
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
    """Return the ids of the processors that this process may run on; all processors if the system has no affinity."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def run_on(ids: list[int]) -> None:
    """Bind this process to processors; no-op if unsupported."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, ids)


def processor_name() -> str:
    """Return the processor's name, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def instructions() -> str:
    """Return the processor's instruction sets, separated by spaces; on systems other than Linux its family."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def child_environment(**more: str) -> dict[str, str]:
    """Return the environment of a Python process that runs a module of this package: `[python, "-m", module]`.

    The process imports this package from its location, and nothing from its working directory, which may have untrusted
    files.
    """
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", **more}


def shared_library(name: str) -> str:
    """Return the file name of a shared library: libNAME.so or libNAME.dylib."""
    return f"lib{name}.dylib" if sys.platform == "darwin" else f"lib{name}.so"


def anonymous_file(num_bytes: int) -> tuple[int, int]:
    """Create an unnamed file of zeros and return two descriptors: read-write, and read-only.

    It is in memory with a fixed size if supported (Linux: a sealed memfd), else in the folder of temporary files. The
    caller closes both descriptors.

    Raises:
        OSError: there is not enough space.
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
    """Return whether a file of another process cannot be truncated while it is mapped.

    On systems without seals the other process, which belongs to this program, is trusted.
    """
    if sys.platform == "linux":
        fixed = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
        return fcntl.fcntl(file, fcntl.F_GET_SEALS) & fixed == fixed
    return True


def receive_flags() -> int:
    """Return flags of `recvmsg` for receiving descriptors: non-blocking, and close-on-exec if supported."""
    if sys.platform == "linux":
        return socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    return socket.MSG_DONTWAIT
