"""Load of an engine."""

from __future__ import annotations

from typing import NamedTuple


class Load(NamedTuple):
    """Load of an engine after its last record."""

    running: int = 0  # number of sequences, as in the next three fields
    waiting: int = 0
    receiving: int = 0
    holding: int = 0
    unfinished: int = 0  # number of requests
    can_step: bool = False  # see `Scheduler.can_step`
