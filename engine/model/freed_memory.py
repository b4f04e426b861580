"""Freed memory of the C allocator: returned to the system after one-time work, retained between steps."""

from __future__ import annotations

import contextlib
import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's numbers, in malloc.h
TRIM_THRESHOLD_BYTES = 128 * 1024 * 1024
MAX_MMAP_THRESHOLD = 32 * 1024 * 1024  # the largest value that glibc accepts


def trim_memory() -> None:
    """Return freed memory of the C allocator to the system, after a large one-time allocation.

    No-op if the C library has no such function.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # TypeError: Windows has no library of the process
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """Retain up to TRIM_THRESHOLD_BYTES of freed memory for the next step, which allocates arrays of the same sizes.
    Allocating a page of 4 KiB from the system takes up to 5 microseconds.

    Arrays of at least MAX_MMAP_THRESHOLD bytes are still returned at once. No-op if the C library has no such function.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, MAX_MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
