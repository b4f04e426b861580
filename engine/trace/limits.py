"""Limits on what a trace may ask of its readers, as in docs/reference/trace-format.md and `static/js/core/limits.js`.

A file of a few bytes can name any number. So numbers that readers count to are bounded here, and whatever an operation
copies beyond its own size is paid for by the bytes that were read: reading a log costs time and memory by its length.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

MAX_WHOLE = (1 << 53) - 1  # JavaScript has whole numbers up to here
MAX_SECONDS = 9e9  # 285 years, which count in nanoseconds up to 2^63
MAX_LAYERS = 1 << 12
MAX_HEADS = 1 << 12
MAX_DIMENSIONS = 1 << 16  # of a head's vectors
MAX_GROUPS = 16  # of layers that share their blocks; each sequence has a table for each
MAX_BLOCKS = 1 << 18  # of one pool, and of the CPU store; places outside the pools of a watched server
MAX_ALL_BLOCKS = 3 << 18  # of all pools together: a state with a content at each place still fits into a keyframe
MAX_BLOCK_SIZE = 1 << 24  # tokens

FREE_UNITS = 1 << 22  # things that any log may have copied
UNITS_PER_BYTE = 16  # added for each byte of its records
UNITS_PER_SLOT = 8  # a slot that is filled or copied; a token or a table entry that is copied counts 1

Int = Annotated[int, Meta(ge=-MAX_WHOLE, le=MAX_WHOLE)]  # what every whole number of a trace is, but seeds
Seconds = Annotated[float, Meta(ge=-MAX_SECONDS, le=MAX_SECONDS)]  # a duration, or a clock reading; finite


class TooMuchError(ValueError):
    """A log copies more than its length pays for."""


class Budget:
    """Copy budget of one pass over a log: forks' tokens and tables, content of blocks."""

    def __init__(self) -> None:
        self._left = FREE_UNITS

    def read(self, num_bytes: int) -> None:
        """Add what the next record pays: `num_bytes` is its length."""
        self._left += num_bytes * UNITS_PER_BYTE

    def spend(self, units: int) -> None:
        """Raises TooMuchError: the records that were read do not pay for it."""
        self._left -= units
        if self._left < 0:
            raise TooMuchError(
                f"the log would copy {-self._left} more than {FREE_UNITS} tokens and table entries and "
                f"{UNITS_PER_BYTE} for each byte of its records"
            )


class Unbounded(Budget):
    """For records that were not read from a file."""

    def spend(self, units: int) -> None:
        """Anything goes."""
