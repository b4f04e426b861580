"""Limits on the resources for reading a trace; see docs/reference/trace-format.md and `static/js/core/limits.js`.

A file of a few bytes can name any number, so counts are bounded. Data that an operation copies is charged to a budget,
which grows with the bytes read. So the time and memory for reading a log are proportional to its length.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

MAX_WHOLE = (1 << 53) - 1  # JavaScript's largest safe integer
MAX_SECONDS = 9e9  # 285 years, so that nanoseconds fit into 2^63
MAX_LAYERS = 1 << 12
MAX_HEADS = 1 << 12
MAX_DIMENSIONS = 1 << 16  # dimensions of a head's vectors
MAX_GROUPS = 16  # groups of layers
MAX_BLOCKS = 1 << 18  # blocks of one pool, of the CPU store, or outside the pools of a monitored server
MAX_ALL_BLOCKS = 3 << 18  # blocks of all pools together, so that a state with all of them full fits into a keyframe
MAX_BLOCK_SIZE = 1 << 24  # tokens

FREE_UNITS = 1 << 22  # initial budget of every log
UNITS_PER_BYTE = 16  # added per byte of records
UNITS_PER_SLOT = 8  # cost of filling or copying a slot; copying a token or table entry costs 1

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
        """Charge the budget. Raises TooMuchError if it is exhausted."""
        self._left -= units
        if self._left < 0:
            raise TooMuchError(
                f"the log would copy {-self._left} more than {FREE_UNITS} tokens and table entries and "
                f"{UNITS_PER_BYTE} for each byte of its records"
            )


class Unbounded(Budget):
    """Budget of records that were not read from a file."""

    def spend(self, units: int) -> None:
        """Accept any number of units."""
