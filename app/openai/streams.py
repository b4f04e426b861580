"""When the streams are told what has come: at once while they are few, several tokens at a time when they are many.

Telling a stream takes a moment of the interpreter, which the engine's thread needs as well. So streams together get no
more than a share of the time: the longer a round takes, the rarer rounds are. A first token, an end and an error never
wait. vLLM has `--stream-interval` for the same, in tokens.
"""

from __future__ import annotations

import time
from typing import Any

import gevent

from app.openai.call import Call

SHARE = 1 / 32  # of the time that telling streams may take
SLOWEST = 0.05  # seconds between two rounds: 20 a second still read as a flow


class Streams:
    """On the hub thread only."""

    def __init__(self) -> None:
        self._late: dict[Call, None] = {}  # have something new, and wait for the next round
        self._pace = 0.0  # seconds between two rounds
        self._last = 0.0
        self._timer: Any = None

    def tell(self, calls: dict[Call, bool]) -> None:
        """Wake those that wait for these calls: now where that may not wait, else with the next round."""
        now = time.monotonic()
        if now - self._last >= self._pace:
            self._round(now, {**self._late, **dict.fromkeys(calls)})
            return
        for call, is_urgent in calls.items():
            if is_urgent:
                self._late.pop(call, None)
                call.news()
            else:
                self._late[call] = None
        if self._late and self._timer is None:  # no further record may come
            self._timer = gevent.spawn_later(self._last + self._pace - now, self._rest)

    def _rest(self) -> None:
        self._timer = None
        if self._late:
            self._round(time.monotonic(), self._late)

    def _round(self, now: float, calls: dict[Call, None]) -> None:
        self._late = {}
        self._last = now
        for call in calls:
            call.news()
        # whoever was woken runs before this, and has written what it had
        gevent.get_hub().loop.run_callback(self._told, now)

    def _told(self, began: float) -> None:
        self._pace = min((time.monotonic() - began) / SHARE, SLOWEST)
