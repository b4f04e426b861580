"""How much an engine has to do."""

from __future__ import annotations

from typing import NamedTuple


class Load(NamedTuple):
    """After the last thing that it did."""

    running: int = 0  # sequences
    waiting: int = 0
    receiving: int = 0
    holding: int = 0
    unfinished: int = 0  # requests
    can_step: bool = False  # whether a step would do anything
