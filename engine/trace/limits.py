"""Limits on the resources that a trace may take; see docs/reference/trace-format.md and `static/js/core/limits.js`.

A file of a few bytes can name any number. So counts are bounded, and what an operation copies beyond its own size is
charged to a budget that grows with the bytes read: time and memory of reading a log are proportional to its length.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

MAX_WHOLE = (1 << 53) - 1  # JavaScript's largest safe integer
MAX_SECONDS = 9e9  # 285 years, so that nanoseconds fit into 2^63
MAX_LAYERS = 1 << 12
MAX_HEADS = 1 << 12
MAX_DIMENSIONS = 1 << 16  # of a head's vectors
MAX_GROUPS = 16  # of layers that share their blocks; each sequence has a table for each
MAX_BLOCKS = 1 << 18  # of one pool, and of the CPU store; places outside the pools of a monitored server
MAX_ALL_BLOCKS = 3 << 18  # of all pools together: a state with a content at each place still fits into a keyframe
MAX_BLOCK_SIZE = 1 << 24  # tokens

FREE_UNITS = 1 << 22  # initial budget of every log
UNITS_PER_BYTE = 16  # added per byte of records
UNITS_PER_SLOT = 8  # cost of a slot filled or copied; a token or table entry copied costs 1

Int = Annotated[int, Meta(ge=-MAX_WHOLE, le=MAX_WHOLE)]  # type of every integer of a trace except seeds
Seconds = Annotated[float, Meta(ge=-MAX_SECONDS, le=MAX_SECONDS)]  # a duration, or a clock reading; finite


class TooMuchError(ValueError):
    """A log copies more than its budget allows."""


class Budget:
    """Copy budget of one pass over a log: tokens and tables of forks, content of blocks."""

    def __init__(self) -> None:
        self._left = FREE_UNITS

    def read(self, num_bytes: int) -> None:
        """Increase the budget for the next record of `num_bytes`."""
        self._left += num_bytes * UNITS_PER_BYTE

    def spend(self, units: int) -> None:
        """Charge the budget. Raises TooMuchError: it is exhausted."""
        self._left -= units
        if self._left < 0:
            raise TooMuchError(
                f"the log would copy {-self._left} more than {FREE_UNITS} tokens and table entries and "
                f"{UNITS_PER_BYTE} for each byte of its records"
            )


class Unbounded(Budget):
    """Budget of records that were not read from a file."""

    def spend(self, units: int) -> None:
        """Accept any number."""
