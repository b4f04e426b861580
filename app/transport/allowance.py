"""Limits on a client's share of the hub thread: processor time and number of frames."""

from __future__ import annotations

import time

import gevent

from app.ground.limits import Limits

SLICE = 0.002  # seconds of processor time after which a client yields to others
READ_SECONDS = 20e-6  # estimated processor time of reading from a socket, which is not measured


class TooMany(OSError):
    """The client exceeded its limit of frames."""


class SharedAllowance:
    """Allowance for clients that exceed their own: `Limits.hub_share` of a processor for all together."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._until = 0.0  # monotonic time until which the used processor time exceeds the allowance

    def spend(self, seconds: float) -> float:
        """Account for processor time. Returns the seconds to wait before using more."""
        now = time.monotonic()
        self._until = max(self._until, now) + seconds / self.limits.hub_share
        return self._until - now


class Allowance:
    """Allowance of a client: two token buckets, for processor time and frames. On the hub thread only.

    Reading from a client that exceeds its processor time pauses until `SharedAllowance` permits more; TCP applies
    backpressure, and no data is lost. A new client's bucket is nearly empty, so reconnecting gains nothing.
    """

    def __init__(self, shared: SharedAllowance) -> None:
        self._shared, self._limits = shared, shared.limits
        self._seconds, self._frames = SLICE, float(shared.limits.frames)
        self._at = self._counted_at = time.monotonic()

    def spend(self, seconds: float) -> None:
        """Account for processor time spent on this client, and yield to other greenlets."""
        now, limits = time.monotonic(), self._limits
        self._seconds += (now - self._at) * limits.client_share
        self._seconds, self._at = min(self._seconds, limits.client_seconds) - seconds, now
        if self._seconds < 0:
            over, self._seconds = -self._seconds, 0.0
            gevent.sleep(self._shared.spend(over))
        else:
            gevent.sleep(0)

    def count(self) -> None:
        """Account for a frame.

        Raises:
            TooMany: the client exceeds its rate of frames.
        """
        now, limits = time.monotonic(), self._limits
        self._frames = min(limits.frames, self._frames + (now - self._counted_at) * limits.frame_rate) - 1
        self._counted_at = now
        if self._frames < 0:
            raise TooMany(f"more than {limits.frames} frames at once and {limits.frame_rate:g} per second")
