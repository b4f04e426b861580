"""Outboxes of clients, whose size is limited per client and in total."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from queue import Empty
from typing import Any
from weakref import WeakSet

from gevent.queue import JoinableQueue

from app.ground.limits import Limits
from app.transport.allowance import Allowance, SharedAllowance

POLL_GAP = 5.0  # maximum seconds between two polls of a connected client


class UnsentBytes:
    """Number of unsent bytes of all clients. A packet for many clients is counted once."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.shared = SharedAllowance(limits)
        self.total = 0
        self.on_freed: Callable[[int], None] = lambda num_bytes: None  # called with the number of released bytes
        self._uses: dict[int, int] = {}  # number of outboxes with a piece, by the piece's `id`
        self._outboxes: WeakSet[Outbox] = WeakSet()

    def add(self, outbox: Outbox, piece: bytes | str) -> None:
        """Add a piece. Above the total limit, disconnect the client with the most unsent bytes."""
        uses = self._uses[id(piece)] = self._uses.get(id(piece), 0) + 1
        self._outboxes.add(outbox)
        if uses == 1:
            self.total += len(piece)
            if self.total > self.limits.all_bytes:
                max(self._outboxes, key=lambda one: one.size).give_up()

    def remove(self, outbox: Outbox, piece: bytes | str) -> None:
        uses = self._uses[id(piece)] - 1
        if uses:
            self._uses[id(piece)] = uses
        else:
            del self._uses[id(piece)]
            self.total -= len(piece)
        if not outbox.size:
            self._outboxes.discard(outbox)


class Outbox(JoinableQueue):  # type: ignore[misc]
    """Unsent packets of an Engine.IO socket, including those being sent. On the hub thread only."""

    web_socket: Any = None  # the WebSocket that sends the packets; None while the client polls

    def __init__(self, unsent: UnsentBytes) -> None:
        super().__init__()
        self.size = 0  # bytes
        self.on_give_up: Callable[[], None] = lambda: None
        self.allowance = Allowance(unsent.shared)
        self._unsent = unsent
        self._sending: list[bytes | str] = []  # pieces that are being sent
        self._polled_until = time.monotonic()  # end of the last polling request
        self._is_closed = False

    @property
    def is_abandoned(self) -> bool:
        """Whether a polling client has stopped polling, which is the only sign of its disconnection."""
        return self.web_socket is None and time.monotonic() - self._polled_until > POLL_GAP

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Append an Engine.IO packet, or None as end marker."""
        if self._is_closed and item is not None:
            return
        if item is not None:
            piece = _piece(item)
            self.size += len(piece)
            self._unsent.add(self, piece)
        super().put(item)
        if self.size > self._unsent.limits.client_bytes:
            self.give_up()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next packet. A WebSocket gets one at a time, so that unsent packets remain counted."""
        if block:
            self._release(self._sending)
            self._sending = []
        elif self.web_socket is not None:
            raise Empty
        self._polled_until = math.inf
        try:
            item = super().get(block, timeout)
        finally:
            self._polled_until = time.monotonic()
        if item is not None:
            self._sending.append(_piece(item))
        return item

    def give_up(self) -> None:
        """Disconnect a client that does not read, and drop its packets."""
        if not self._is_closed:
            self.close()
            self.on_give_up()

    def close(self) -> None:
        """Drop all packets and send no more to this client."""
        self._is_closed = True
        while True:
            try:
                item = super().get(False)
            except Empty:
                break
            self.task_done()
            if item is not None:
                self._release([_piece(item)])
        self._release(self._sending)
        self._sending = []

    def _release(self, pieces: list[bytes | str]) -> None:
        for piece in pieces:
            self.size -= len(piece)
            self._unsent.remove(self, piece)
            self._unsent.on_freed(len(piece))


def _piece(packet: Any) -> bytes | str:
    """Return the content of a packet, whose size counts as memory."""
    return packet.data if isinstance(packet.data, (bytes, str)) else ""
