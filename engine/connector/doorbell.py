"""Rings for who waits for files, besides whatever else they wait for."""

from __future__ import annotations

import contextlib
import socket


class Doorbell:
    """A file that can be read from the moment it was rung. One thread waits and hears; any may ring."""

    def __init__(self) -> None:
        self._hears, self._rings = socket.socketpair()
        self._hears.setblocking(False)
        self._rings.setblocking(False)

    def fileno(self) -> int:
        return self._hears.fileno()

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # full, which rings as well, or nobody listens any more
            self._rings.send(b"!")

    def heard(self) -> None:
        """Whoever rang so far was heard."""
        with contextlib.suppress(BlockingIOError):
            while self._hears.recv(4096):
                pass

    def close(self) -> None:
        self._hears.close()
        self._rings.close()
