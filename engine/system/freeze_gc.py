"""Freezing of permanent objects, so that the garbage collector skips them.

Torch and its dependencies are some 400,000 objects for as long as the process lives. A full collection visits each of
them, which blocks for 0.2 s: several times during imports, and later in the middle of serving.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def freeze_gc() -> Iterator[None]:
    """Nothing is collected while what the block makes is made, and that is never looked at again: for modules and
    models that are there as long as the process is.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
