"""Prevention of memory dumps of this process, whose memory contains the keys of requests."""

from __future__ import annotations

import ctypes
import sys

PR_SET_DUMPABLE = 4  # prctl(2)


def forbid_dumps() -> None:
    """Disable core files. On Linux, also prevent the user's other processes from attaching to this one or reading its
    memory. No-op on Windows.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
