"""Wakeups for a thread that waits for files."""

from __future__ import annotations

import contextlib
import socket


class Wakeup:
    """File descriptor that becomes readable when rung. One thread waits; any thread may ring."""

    def __init__(self) -> None:
        self._receiver, self._rings = socket.socketpair()
        self._receiver.setblocking(False)
        self._rings.setblocking(False)

    def fileno(self) -> int:
        return self._receiver.fileno()

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # full, which wakes the reader as well, or the reader is closed
            self._rings.send(b"!")

    def drain(self) -> None:
        """Clear the wakeups so far."""
        with contextlib.suppress(BlockingIOError):
            while self._receiver.recv(4096):
                pass

    def close(self) -> None:
        self._receiver.close()
        self._rings.close()
