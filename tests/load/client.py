"""Viewers as raw web sockets in one thread. The usual client of tests would need a core per fifty viewers."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

import msgpack

CONNECT, EVENT, ACK = 0, 2, 3  # Socket.IO packets
JOINED = 1  # number of a join's acknowledgement
HANDSHAKE = (
    "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{more}\r\n"
)


def frame(payload: bytes, opcode: int = 2) -> bytes:
    """Return a client's message as a frame. The mask is zero, which is allowed and leaves the payload unchanged."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 0xFE)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0xFF)) + size.to_bytes(8, "big")
    return head + bytes(4) + payload


class Viewer:
    """Connection of a viewer, and the position in a session's log that it resumes from."""

    headers = ""  # further headers of the handshake, each with CRLF

    def __init__(self, port: int, theater: str, selector: selectors.BaseSelector, keep: Keep) -> None:
        self._port, self._theater, self._selector, self._keep = port, theater, selector, keep
        self.num_records = 0
        self.joined_at: float | None = None  # CLOCK_MONOTONIC; None while disconnected
        self.socket: socket.socket | None = None
        self._buffer = bytearray()
        self._opened = False

    def connect(self) -> None:
        """Start to connect. Call `read` when data is available."""
        self.socket = socket.create_connection(("127.0.0.1", self._port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(HANDSHAKE.format(port=self._port, more=self.headers).encode())
        self.socket.setblocking(False)
        self._buffer.clear()
        self._opened = False
        self._selector.register(self.socket, selectors.EVENT_READ, self)

    def drop(self) -> None:
        """Disconnect without notice."""
        if self.socket is not None:
            self._selector.unregister(self.socket)
            self.socket.close()
            self.socket = self.joined_at = None

    def read(self) -> None:
        """Read available data. The server may end the connection."""
        assert self.socket is not None
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop()
            return
        now = time.monotonic()
        self._buffer += data
        if not self._opened:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            assert self._buffer.startswith(b"HTTP/1.1 101"), bytes(self._buffer[:200])
            del self._buffer[: end + 4]
            self._opened = True
        at = 0
        while (found := self._next(at)) is not None:
            opcode, start, at = found
            self._message(opcode, bytes(memoryview(self._buffer)[start:at]), now)
            if self.socket is None:
                return
        del self._buffer[:at]

    def _next(self, at: int) -> tuple[int, int, int] | None:
        """Return opcode, first byte and end of the frame at `at`; None if it is incomplete."""
        have = len(self._buffer) - at
        if have < 2:
            return None
        size, start = self._buffer[at + 1], at + 2
        if size >= 126:
            wide = 2 if size == 126 else 8
            if have < 2 + wide:
                return None
            size, start = int.from_bytes(self._buffer[start : start + wide], "big"), start + wide
        end = start + size
        return None if end > len(self._buffer) else (self._buffer[at] & 15, start, end)

    def _message(self, opcode: int, payload: bytes, now: float) -> None:
        if opcode == 8:
            self.drop()
        elif opcode == 1:
            if payload[:1] == b"0":
                self.send({"type": CONNECT, "nsp": "/"})
            elif payload[:1] == b"2":
                self._write(frame(b"3", 1))
        elif opcode == 2:
            self._packet(msgpack.unpackb(payload), now)

    def _packet(self, packet: dict[str, Any], now: float) -> None:
        kind, data = packet["type"], packet.get("data")
        if kind == CONNECT:
            self.came()
        elif kind == ACK and data:
            self.answered(packet["id"], data[0], now)
        elif kind == EVENT and data and data[0] == "records":
            if packet.get("id") is not None:
                self.send({"type": ACK, "nsp": "/", "id": packet["id"], "data": []})
            assert data[1]["first"] == self.num_records, (data[1]["first"], self.num_records)
            assert self.joined_at is not None
            for record in data[1]["records"]:
                self._keep(self.num_records, record, now, self.joined_at)
                self.num_records += 1

        elif kind == EVENT and data:
            self.received(data[0], data[1])

    def came(self) -> None:
        """Join the run once connected."""
        self.join()

    def join(self) -> None:
        """Join the session and continue with the records after the last position."""
        self.ask(JOINED, "join", {"theater": self._theater, "from": self.num_records, "epoch": 0})

    def answered(self, number: int, ack: dict[str, Any], now: float) -> None:
        """Handle the acknowledgement of a request under its number."""
        assert ack["ok"], ack
        if number == JOINED:
            assert ack["from"] == self.num_records, ack
            self.joined_at = now

    def received(self, event: str, data: dict[str, Any]) -> None:
        """Handle a message other than records."""

    def ask(self, number: int, event: str, body: dict[str, Any]) -> None:
        """Send an event that is acknowledged with a number."""
        self.send({"type": EVENT, "nsp": "/", "id": number, "data": [event, body]})

    def send(self, packet: dict[str, Any]) -> None:
        """Send a packet. A packet that does not fit into the socket's buffer fails the test."""
        self._write(frame(msgpack.packb(packet)))

    def _write(self, data: bytes) -> None:
        assert self.socket is not None
        try:
            self.socket.sendall(data)
        except OSError:
            self.drop()


Keep = Callable[[int, bytes, float, float], None]  # index, record, time of receipt, time at which the viewer joined
