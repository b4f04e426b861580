"""Streamed responses to API clients of a web worker, forwarded from the engine's process on a greenlet."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import gevent.socket

from app.openai.errors import of_refusal
from app.relay.link import server_unreachable
from app.transport.async_response import AsyncResponse

CONNECTING = 10.0  # seconds
PIECE = 64 * 1024  # bytes
# headers that are not forwarded: they belong to one connection, or the worker's server sets them
OWN = (
    *("connection", "date", "expect", "keep-alive", "proxy-authenticate", "proxy-authorization", "server", "te"),
    *("trailer", "transfer-encoding", "upgrade"),
)


class Streamed(AsyncResponse):
    """Response of the engine's process to one request. Waiting for it occupies no thread.

    If the client disconnects, so does the connection to the engine's process.
    """

    def __init__(
        self, server: str | None, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> None:
        """Prepare a request. `server`: address of the engine's process; None: not known."""
        self._server, self._request = server, (method, target, body, headers)
        self._socket: Any = None
        self._upstream: http.client.HTTPConnection | None = None
        self._found: http.client.HTTPResponse | None = None  # None: the server is not reachable
        self._refusal = of_refusal(server_unreachable())
        self._refused = b""

    def head(self) -> tuple[str, list[tuple[str, str]]]:
        parts = urlsplit(self._server or "")
        try:
            if not self._server:
                raise ConnectionError
            self._upstream = http.client.HTTPConnection(parts.hostname or "", parts.port)
            self._socket = gevent.socket.create_connection((parts.hostname, parts.port), CONNECTING)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(None)  # a request may wait in the client's queue until its deadline
            self._upstream.sock = self._socket
            self._upstream.request(*self._request)
            self._found = self._upstream.getresponse()
        except (OSError, http.client.HTTPException):
            status, refused, self._refused = self._refusal.response(urlsplit(self._request[1]).path)
            return status, refused
        headers = [(name, value) for name, value in self._found.headers.items() if name.lower() not in OWN]
        return f"{self._found.status} {self._found.reason}", headers

    def __iter__(self) -> Iterator[bytes]:
        if self._found is None:
            yield self._refused
            return
        while piece := self._found.read1(PIECE):
            yield piece

    def gone(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes its reader

    def close(self) -> None:
        if self._found is not None:
            self._found.close()
        if self._upstream is not None:
            self._upstream.close()
