"""Freezing of permanent objects, so that the garbage collector skips them.

torch and its dependencies create about 400,000 permanent objects. A full collection visits all of them, which takes
0.2 s, several times during imports, and later while serving.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def freeze_gc() -> Iterator[None]:
    """Disable collection within the context, and freeze all objects at its end. Use it for imports and models."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
