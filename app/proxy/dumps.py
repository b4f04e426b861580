"""Prevention of memory dumps of this process, since request keys pass through its memory."""

from __future__ import annotations

import ctypes
import sys

PR_SET_DUMPABLE = 4  # prctl(2)


def forbid_dumps() -> None:
    """Disable core files. On Linux other processes of the user can neither attach to this one nor read its memory;
    no-op on systems without such limits.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
