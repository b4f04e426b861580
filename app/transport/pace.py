"""Limits of a client's share of the hub thread: processor time and frames, whatever their size."""

from __future__ import annotations

import time

import gevent

from app.ground.limits import Limits

SLICE = 0.002  # seconds of processor time after which a client lets the others have their turn
READ_SECONDS = 20e-6  # of processor time that reading from a socket takes, about: it is not measured


class TooMany(OSError):
    """A client sent more frames than its bound."""


class Shared:
    """Processor time beyond the clients' allowances. All of them together have `Limits.hub_share` of a processor."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._until = 0.0  # monotonic: when the time that was taken so far is paid for

    def take(self, seconds: float) -> float:
        """Take processor time. Returns the seconds to wait before taking more."""
        now = time.monotonic()
        self._until = max(self._until, now) + seconds / self.limits.hub_share
        return self._until - now


class Pace:
    """The allowance of one client: two token buckets. On the hub thread only.

    A client over its allowance of processor time is read no further until its turn in `Shared` comes, which TCP lets it
    feel; it loses nothing. A new client's bucket is nearly empty, so connecting again earns none.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared, self._limits = shared, shared.limits
        self._seconds, self._frames = SLICE, float(shared.limits.frames)
        self._at = self._counted_at = time.monotonic()

    def spend(self, seconds: float) -> None:
        """Account for processor time that was spent on this client, and let others have theirs."""
        now, limits = time.monotonic(), self._limits
        self._seconds += (now - self._at) * limits.client_share
        self._seconds, self._at = min(self._seconds, limits.client_seconds) - seconds, now
        if self._seconds < 0:
            over, self._seconds = -self._seconds, 0.0
            gevent.sleep(self._shared.take(over))
        else:
            gevent.sleep(0)

    def count(self) -> None:
        """Account for a frame.

        Raises:
            TooMany: too many in too short a time.
        """
        now, limits = time.monotonic(), self._limits
        self._frames = min(limits.frames, self._frames + (now - self._counted_at) * limits.frame_rate) - 1
        self._counted_at = now
        if self._frames < 0:
            raise TooMany(f"more than {limits.frames} frames at once and {limits.frame_rate:g} a second")
