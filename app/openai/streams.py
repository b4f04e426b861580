"""Pacing of streams: new tokens are written immediately to a few streams, and in batches to many.

Writing to a stream needs the interpreter, as the engine's thread does, so all streams together are limited to a share
of the time: the longer a round takes, the less often rounds are. First tokens, ends and errors are never delayed. vLLM
has `--stream-interval`, in tokens, for the same purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gevent

from app.openai.call import Call

SHARE = 1 / 32  # of the time that writing streams may take
SLOWEST = 0.05  # seconds between two rounds: 20 per second still look continuous


class Streams:
    """Pacing of all streams, on the hub thread only."""

    def __init__(self, urgent_sent: Callable[[], object]) -> None:
        """`urgent_sent`: called when those that may not wait have been sent."""
        self._urgent_sent = urgent_sent
        self._late: dict[Call, None] = {}  # have something new, and wait for the next round
        self._pace = 0.0  # seconds between two rounds
        self._last = 0.0
        self._timer: Any = None

    def tell(self, calls: dict[Call, bool]) -> None:
        """Wake the waiting streams of these calls: urgent ones now, others in the next round."""
        loop = gevent.get_hub().loop
        urgent = [call for call, is_urgent in calls.items() if is_urgent]
        for call in urgent:
            self._late.pop(call, None)
            call.news()
        if urgent:  # the woken greenlets run before this and have written their data
            loop.run_callback(self._urgent_sent)
        self._late.update(dict.fromkeys(call for call, is_urgent in calls.items() if not is_urgent))
        left = self._last + self._pace - time.monotonic()
        if self._late and left <= 0:
            loop.run_callback(self._rest) if urgent else self._rest()
        elif self._late and self._timer is None:  # no further record may come
            self._timer = gevent.spawn_later(left, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self._rest()

    def _rest(self) -> None:
        """Write to all streams with delayed output."""
        calls, self._late = self._late, {}
        if not calls:
            return
        now = self._last = time.monotonic()
        for call in calls:
            call.news()
        gevent.get_hub().loop.run_callback(self._set_pace, now)

    def _set_pace(self, began: float) -> None:
        self._pace = min((time.monotonic() - began) / SHARE, SLOWEST)
