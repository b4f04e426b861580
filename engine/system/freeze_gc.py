"""Freezing of permanent objects, so that the garbage collector skips them.

Torch and its dependencies are about 400,000 permanent objects. A full collection visits all of them, which blocks for
0.2 s: several times during imports, and later while serving.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def freeze_gc() -> Iterator[None]:
    """Disable collection within the context and freeze the objects that it creates: permanent modules and models."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
