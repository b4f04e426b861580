"""Initialization that must precede threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from engine.trace import codec


def prepare_types() -> None:
    """Make every struct type of the program safe to read on several threads (`codec.prepare`).

    A server's threads meet types with whatever request comes first; preparing all of them avoids a rule for each.
    """
    for kind in set(_kinds(Struct)):
        with contextlib.suppress(TypeError):  # never decoded: its fields have no form on the wire
            codec.prepare(kind)


def _kinds(kind: Any) -> Iterator[Any]:
    for found in kind.__subclasses__():
        yield found
        yield from _kinds(found)
