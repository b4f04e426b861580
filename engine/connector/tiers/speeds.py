"""Decision between loading and recomputing blocks, by measurements on this machine.

    load    = Σ over tiers (blocks · seconds per block + bytes · seconds per byte) · factor
              + bytes · seconds per byte to copy them to the pool
    compute = tokens · seconds per token of prefill

The cost line of a tier (seconds per block, seconds per byte) is fitted to blocks of two sizes when the tier is opened.
These were just written and are in the page cache, so the line is the best case of a disk. Real loads have about one
size and cannot determine a line. They change its factor, which is measured / expected seconds over the last loads. A
slow tier is not used, so no load could show that it is fast again. Therefore the factor decays towards 1, by half every
HALF_LIFE seconds without a load, until the tier is tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from engine.trace.operations import Medium

DECAY = 0.95  # factor of the weight of earlier measurements per new one: about the last twenty count
HALF_LIFE = 60.0  # seconds, of a tier's factor


class Line(NamedTuple):
    """Duration of loads as a linear function of blocks and bytes."""

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
    """Decision between loading and computing: the faster one, or loading if a time is not measured yet (None)."""

    load: bool
    load_seconds: float | None
    compute_seconds: float | None


def line_through(small: Measured, large: Measured) -> Line:
    """Return the line through two measurements of different sizes. Negative coefficients become 0."""
    per_byte = max(0.0, (large.seconds - small.seconds) / (large.num_bytes - small.num_bytes))
    return Line(max(0.0, small.seconds - small.num_bytes * per_byte), per_byte)


class _Rate:
    """Seconds per unit of work, over recent measurements."""

    def __init__(self) -> None:
        self._seconds = self._units = 0.0

    def add(self, units: float, seconds: float) -> None:
        self._seconds = DECAY * self._seconds + seconds
        self._units = DECAY * self._units + units

    @property
    def value(self) -> float | None:
        return self._seconds / self._units if self._units else None


class _TierSpeed:
    """Cost line of a tier, and the factor of recent loads."""

    def __init__(self, line: Line | None, clock: Callable[[], float]) -> None:
        self.line = line
        self._clock = clock
        self._seconds = self._expected = 0.0
        self._last = 0.0

    def factor(self) -> float:
        if not self._expected:
            return 1.0
        age = max(0.0, self._clock() - self._last)
        weight: float = 0.5 ** (age / HALF_LIFE)
        return 1 + (self._seconds / self._expected - 1) * weight

    def add(self, num_bytes: int, seconds: float) -> None:
        if self.line is None:  # the measurement at opening failed, so the first load determines the line
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
    """Running estimates for the engines that share the tiers, perhaps of several models. Thread-safe.

    `clock` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tiers: dict[Medium, _TierSpeed] = {}
        self._prefill: dict[bytes, _Rate] = {}  # by layout
        self._placing = _Rate()

    def add_tier(self, tier: Medium, line: Line | None) -> None:
        """Add a tier, with its measured cost line if there is one."""
        self._tiers[tier] = _TierSpeed(line, self._clock)

    def note_load(self, tier: Medium, num_bytes: int, seconds: float) -> None:
        """Record the load of a block from a tier."""
        with self._lock:
            self._tiers[tier].add(num_bytes, seconds)

    def note_placing(self, num_bytes: int, seconds: float) -> None:
        """Record a copy of loaded bytes to the pool's tensors."""
        with self._lock:
            self._placing.add(num_bytes, seconds)

    def note_prefill(self, layout: bytes, num_tokens: int, seconds: float) -> None:
        """Record a step of an engine with this layout that computed `num_tokens` prompt tokens."""
        with self._lock:
            self._prefill.setdefault(layout, _Rate()).add(num_tokens, seconds)

    def seconds_per_prefill_token(self, layout: bytes) -> float | None:
        """Return the mean over the last prefills, or None before the first. It ignores the length of the context."""
        found = self._prefill.get(layout)
        return None if found is None else found.value

    def speed(self, tier: Medium) -> Line | None:
        """Return the current seconds per block and byte of a tier, or None if they are not measured."""
        with self._lock:
            speed = self._tiers.get(tier)
            if speed is None or speed.line is None:
                return None
            factor = speed.factor()
            return Line(speed.line.seconds_per_block * factor, speed.line.seconds_per_byte * factor)

    def worth_loading(self, layout: bytes, num_tokens: int, planned: Iterable[Planned]) -> Decision:
        """Decide whether an engine with this layout should load or compute the blocks of `num_tokens` tokens.

        Raises:
            KeyError: there is no such tier.
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
