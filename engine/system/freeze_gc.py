"""The garbage collector, kept from looking at what stays.

Torch and what it brings are some 400,000 objects for as long as the process lives. A full collection looks at each of
them, which takes 0.2 s in which nothing else is done: while they are made, several of these; later one in the midst of
serving.
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
