"""Memory that was needed once."""

from __future__ import annotations

import contextlib
import ctypes


def trim_memory() -> None:
    """Return freed memory of the C allocator to the system, after a large one-time allocation.

    No-op if the C library has no such function.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # TypeError: Windows has no library of the process
        ctypes.CDLL(None).malloc_trim(0)
