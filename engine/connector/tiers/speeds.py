"""Decision between loading and recomputing blocks, by measurements on this machine.

    load    = Σ over tiers (blocks · seconds per block + bytes · seconds per byte) · factor + bytes · seconds to place
    compute = tokens · seconds per token of prefill

A tier's line (seconds per block, seconds per byte) is fitted through blocks of two sizes when the tier is opened. They
were just written, so they are in the page cache: the line is the disk's best case. Real loads have about one size and
cannot determine a line; they move its factor, measured / expected seconds over the last loads. A slow tier is not
loaded from, so no load can show that it is fast again: the factor therefore decays towards 1, by half every HALF_LIFE
seconds without a load, until the tier is tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from engine.trace.operations import Medium

DECAY = 0.95  # of the weight of what was measured before, with each new measurement: the last twenty or so count
HALF_LIFE = 60.0  # seconds


class Line(NamedTuple):
    """Cost line of loading."""

    seconds_per_block: float
    seconds_per_byte: float

    def seconds(self, blocks: int, num_bytes: int) -> float:
        return blocks * self.seconds_per_block + num_bytes * self.seconds_per_byte


class Measured(NamedTuple):
    """Measured load of a block."""

    num_bytes: int
    seconds: float


class Planned(NamedTuple):
    """Planned load from a tier."""

    tier: Medium
    blocks: int
    num_bytes: int


class Decision(NamedTuple):
    """Decision between loading and computing, by the shorter time. Not measured yet (None): load."""

    load: bool
    load_seconds: float | None
    compute_seconds: float | None


def line_through(small: Measured, large: Measured) -> Line:
    """Return the line through two blocks of different sizes; neither of its parts is below 0."""
    per_byte = max(0.0, (large.seconds - small.seconds) / (large.num_bytes - small.num_bytes))
    return Line(max(0.0, small.seconds - small.num_bytes * per_byte), per_byte)


class _Quotient:
    """Σ seconds / Σ units of work, over recent measurements."""

    def __init__(self) -> None:
        self._seconds = self._spent_on = 0.0

    def note(self, spent_on: float, seconds: float) -> None:
        self._seconds = DECAY * self._seconds + seconds
        self._spent_on = DECAY * self._spent_on + spent_on

    @property
    def value(self) -> float | None:
        return self._seconds / self._spent_on if self._spent_on else None


class _TierSpeed:
    """Cost line of a tier, and the ratio of recent loads to it."""

    def __init__(self, line: Line | None, clock: Callable[[], float]) -> None:
        self.line = line
        self._clock = clock
        self._seconds = self._expected = 0.0
        self._last = 0.0

    def factor(self) -> float:
        if not self._expected:
            return 1.0
        age = max(0.0, self._clock() - self._last)
        left: float = 0.5 ** (age / HALF_LIFE)
        return 1 + (self._seconds / self._expected - 1) * left

    def note(self, num_bytes: int, seconds: float) -> None:
        if self.line is None:  # nothing could be measured at opening: the first load is what there is
            self.line = Line(0.0, seconds / max(1, num_bytes))
        expected = self.line.seconds(1, num_bytes)
        if expected <= 0:
            return
        self._seconds = DECAY * self._expected * self.factor() + seconds
        self._expected = DECAY * self._expected + expected
        self._last = self._clock()

    def seconds(self, blocks: int, num_bytes: int) -> float | None:
        return None if self.line is None else self.line.seconds(blocks, num_bytes) * self.factor()


class Speeds:
    """Running estimates for engines, perhaps of several models, that share the tiers, each on a thread of its own.

    `clock` gives seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tiers: dict[Medium, _TierSpeed] = {}
        self._prefill: dict[bytes, _Quotient] = {}  # by layout
        self._placing = _Quotient()

    def opened(self, tier: Medium, line: Line | None) -> None:
        """Add a tier, with its measured speed if there is one."""
        self._tiers[tier] = _TierSpeed(line, self._clock)

    def note_load(self, tier: Medium, num_bytes: int, seconds: float) -> None:
        """Record the load of a block from a tier."""
        with self._lock:
            self._tiers[tier].note(num_bytes, seconds)

    def note_placing(self, num_bytes: int, seconds: float) -> None:
        """Note that loaded bytes were copied into the pool's tensors."""
        with self._lock:
            self._placing.note(num_bytes, seconds)

    def note_prefill(self, layout: bytes, num_tokens: int, seconds: float) -> None:
        """Note that a step of an engine with this layout computed keys and values of that many prompt tokens."""
        with self._lock:
            self._prefill.setdefault(layout, _Quotient()).note(num_tokens, seconds)

    def seconds_per_prefill_token(self, layout: bytes) -> float | None:
        """Over the last prefills; None before the first. Attention's share grows with the context: an average."""
        found = self._prefill.get(layout)
        return None if found is None else found.value

    def speed(self, tier: Medium) -> Line | None:
        """Return the current seconds per block and byte of a tier; None if not measured."""
        with self._lock:
            speed = self._tiers.get(tier)
            if speed is None or speed.line is None:
                return None
            factor = speed.factor()
            return Line(speed.line.seconds_per_block * factor, speed.line.seconds_per_byte * factor)

    def worth_loading(self, layout: bytes, num_tokens: int, planned: Iterable[Planned]) -> Decision:
        """Return whether an engine with that layout should load the blocks of `num_tokens` tokens rather than compute
        them.

        Raises:
            KeyError: no such tier.
        """
        with self._lock:
            load: float | None = 0.0
            placing = self._placing.value or 0.0
            for tier, blocks, num_bytes in planned:
                seconds = self._tiers[tier].seconds(blocks, num_bytes)
                load = None if load is None or seconds is None else load + seconds + num_bytes * placing
            per_token = self.seconds_per_prefill_token(layout)
            compute = None if per_token is None else num_tokens * per_token
        return Decision(load is None or compute is None or load < compute, load, compute)
