"""Engine.IO pings by timers that do not keep closed sessions in memory.

Engine.IO waits for a session's next ping in a task, which keeps the session in memory for 25 seconds after its end:
some 16 KB per closed connection. This module relies on python-engineio 4, where `Socket._send_ping` waits and then
pings, and `_async["thread"]` is the class of tasks.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gevent
from engineio.async_drivers.gevent import Thread
from engineio.packet import PING, Packet
from engineio.socket import Socket


class PingTimer:
    """Timer for the next ping of a session, with the method of Engine.IO's tasks that Engine.IO calls."""

    def __init__(self, session: Socket) -> None:
        self._session, self._seconds = weakref.ref(session), session.server.ping_interval

    def start(self) -> None:
        gevent.spawn_later(self._seconds, _ping, self._session)


def task(target: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
    """Return an Engine.IO task that is not started."""
    session = getattr(target, "__self__", None)
    if isinstance(session, Socket) and getattr(target, "__func__", None) is Socket._send_ping:
        return PingTimer(session)
    return Thread(target, list(args), dict(kwargs or {}))


def _ping(reference: weakref.ref[Socket]) -> None:
    session = reference()
    if session is not None and not session.closing and not session.closed:
        session.last_ping = time.time()
        session.send(Packet(PING))
