"""Load of an engine."""

from __future__ import annotations

from typing import NamedTuple


class Load(NamedTuple):
    """Load of an engine after its last record."""

    running: int = 0  # sequences
    waiting: int = 0
    receiving: int = 0
    holding: int = 0
    unfinished: int = 0  # requests
    can_step: bool = False  # whether a step would do anything
