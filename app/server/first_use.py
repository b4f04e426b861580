"""Initialization that must precede threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from engine.trace import codec


def prepare_types() -> None:
    """Make every struct type of the program safe to decode on several threads (`codec.prepare`).

    Any request may be the first to use a type, on any thread, so all types are prepared.
    """
    for kind in set(_subclasses(Struct)):
        with contextlib.suppress(TypeError):  # the type has fields that cannot be decoded, so it never is
            codec.prepare(kind)


def _subclasses(kind: Any) -> Iterator[Any]:
    for found in kind.__subclasses__():
        yield found
        yield from _subclasses(found)
