"""Viewers without WebSockets: Engine.IO's long polling over raw sockets, in one thread like `tests.load.client`."""

import base64
import json
import re
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

import msgpack

from tests.load.client import CONNECT, Viewer

BETWEEN = b"\x1e"  # packets of a payload
PATH = "/socket.io/?EIO=4&transport=polling"
PACKETS = 15  # per request; the server accepts 16


class Exchange:
    """Connection with one request at a time. `answered` is called with the body of each response, or None."""

    def __init__(self, port: int, selector: selectors.BaseSelector, answered: Callable[[bytes | None], None]) -> None:
        self._port, self._selector, self._answered = port, selector, answered
        self.socket: socket.socket | None = None
        self._buffer = bytearray()

    def ask(self, method: str, path: str, headers: str, body: bytes = b"") -> None:
        """Send a request. Raises OSError."""
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self._port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(self.socket, selectors.EVENT_READ, self)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        )
        self.socket.sendall(head.encode() + body)

    def read(self) -> None:
        """Read available data."""
        assert self.socket is not None
        try:
            data = self.socket.recv(1 << 18)
        except OSError:
            data = b""
        self._buffer += data
        head, blank, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if blank and length and len(rest) >= int(length[1]):
            self._buffer.clear()
            if re.search(rb"(?i)connection: *close", head):
                self.close()
            self._answered(rest if head.startswith(b"HTTP/1.1 200") else None)
        elif not data:
            self.close()
            self._answered(None)

    def close(self) -> None:
        if self.socket is not None:
            self._selector.unregister(self.socket)
            self.socket.close()
            self.socket = None
        self._buffer.clear()


class Polled(Viewer):
    """Viewer that receives packets in responses and sends packets in requests."""

    _getting: Exchange
    _posting: Exchange

    def connect(self) -> None:
        self._getting = Exchange(self._port, self._selector, self._came)
        self._posting = Exchange(self._port, self._selector, self._went)
        self._path, self._waiting, self._is_posting = PATH, list[bytes](), False
        self._get()

    def drop(self) -> None:
        if self.socket is not None:
            self._getting.close()
            self._posting.close()
            self.socket = self.joined_at = None
        super().drop()

    def send(self, packet: dict[str, Any]) -> None:
        self._post(b"b" + base64.b64encode(msgpack.packb(packet)))

    def _get(self) -> None:
        self._getting.ask("GET", self._path, self.headers)
        self.socket = self._getting.socket

    def _came(self, body: bytes | None) -> None:
        now = time.monotonic()
        if body is None:
            self.drop()
            return
        for packet in body.split(BETWEEN):
            if packet[:1] == b"0":
                self._path = f"{PATH}&sid={json.loads(packet[1:])['sid']}"
                self.send({"type": CONNECT, "nsp": "/"})
            elif packet[:1] == b"2":
                self._post(b"3")
            elif packet[:1] == b"b":
                self._packet(msgpack.unpackb(base64.b64decode(packet[1:])), now)
            elif packet[:1] == b"1":
                self.drop()
            if self.socket is None:
                return
        self._again(self._get)

    def _post(self, packet: bytes) -> None:
        self._waiting.append(packet)
        if not self._is_posting:
            self._again(self._flush)

    def _flush(self) -> None:
        body, self._waiting = BETWEEN.join(self._waiting[:PACKETS]), self._waiting[PACKETS:]
        self._is_posting = True
        self._posting.ask("POST", self._path, self.headers + "Content-Type: text/plain\r\n", body)

    def _went(self, body: bytes | None) -> None:
        self._is_posting = False
        if body is None:
            self.drop()
        elif self._waiting:
            self._again(self._flush)

    def _again(self, ask: Callable[[], None]) -> None:
        try:
            ask()
        except OSError:
            self.drop()
