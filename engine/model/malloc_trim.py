"""Memory that was needed once."""

from __future__ import annotations

import contextlib
import ctypes


def trim_memory() -> None:
    """Give the system what this process has freed and its allocator keeps: after a large work that does not come again.
    Nothing where the C library has no such function.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # TypeError: Windows has no library of the process
        ctypes.CDLL(None).malloc_trim(0)
