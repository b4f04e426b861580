"""No memory dumps of this process: keys of requests pass through its memory."""

from __future__ import annotations

import ctypes
import sys

PR_SET_DUMPABLE = 4  # prctl(2)


def forbid_dumps() -> None:
    """Write no core file at a crash. On Linux no other process of the user can attach to this one or read its memory
    either; no-op where the system has no such limits.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
