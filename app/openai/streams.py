"""Pacing of streams: new tokens are written immediately to a few streams, and in batches to many.

Writing to streams and the engine's thread compete for the interpreter, so all streams together are limited to a share
of the time: the longer a round of writes takes, the rarer the rounds. First tokens, ends and errors are never delayed.
vLLM's `--stream-interval`, in tokens, has the same purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gevent

from app.openai.call import Call

SHARE = 1 / 32  # share of the time that writing to streams may take
MAX_PACE = 0.05  # maximum seconds between two rounds: 20 per second still look continuous


class Streams:
    """Scheduler of the writes to all streams. Used on the hub thread only."""

    def __init__(self, on_urgent_sent: Callable[[], object]) -> None:
        """`on_urgent_sent`: called after urgent updates have been written."""
        self._on_urgent_sent = on_urgent_sent
        self._delayed: dict[Call, None] = {}  # calls with new output, which wait for the next round
        self._pace = 0.0  # seconds between two rounds
        self._last = 0.0
        self._timer: Any = None

    def notify(self, calls: dict[Call, bool]) -> None:
        """Write the updates of these calls: those that map to True (urgent) now, the others in the next round."""
        loop = gevent.get_hub().loop
        urgent = [call for call, is_urgent in calls.items() if is_urgent]
        for call in urgent:
            self._delayed.pop(call, None)
            call.notify()
        if urgent:  # the woken greenlets run before this callback, and have then written their data
            loop.run_callback(self._on_urgent_sent)
        self._delayed.update(dict.fromkeys(call for call, is_urgent in calls.items() if not is_urgent))
        left = self._last + self._pace - time.monotonic()
        if self._delayed and left <= 0:
            loop.run_callback(self._write_delayed) if urgent else self._write_delayed()
        elif self._delayed and self._timer is None:  # the next record may be too late, or never come
            self._timer = gevent.spawn_later(left, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._write_delayed()

    def _write_delayed(self) -> None:
        calls, self._delayed = self._delayed, {}
        if not calls:
            return
        now = self._last = time.monotonic()
        for call in calls:
            call.notify()
        gevent.get_hub().loop.run_callback(self._set_pace, now)

    def _set_pace(self, start: float) -> None:
        self._pace = min((time.monotonic() - start) / SHARE, MAX_PACE)
