"""Wakeup of a thread that waits for file descriptors."""

from __future__ import annotations

import contextlib
import socket


class Wakeup:
    """File descriptor that becomes readable after `ring`. One thread waits for it; any thread may call `ring`."""

    def __init__(self) -> None:
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)

    def fileno(self) -> int:
        return self._receiver.fileno()

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # the buffer is full, so the receiver is readable, or it is closed
            self._sender.send(b"!")

    def drain(self) -> None:
        """Clear all wakeups."""
        with contextlib.suppress(BlockingIOError):
            while self._receiver.recv(4096):
                pass

    def close(self) -> None:
        self._receiver.close()
        self._sender.close()
