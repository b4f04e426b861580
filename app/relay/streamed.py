"""Streamed responses to API clients of a web worker, forwarded from the server on a greenlet."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import gevent.socket

from app.openai.errors import from_app_error
from app.relay.link import server_unreachable
from app.transport.async_response import AsyncResponse

CONNECT_SECONDS = 10.0
PIECE = 64 * 1024  # bytes
# headers that are not forwarded: hop-by-hop headers, and those that the worker sets itself
OWN = (
    *("connection", "date", "expect", "keep-alive", "proxy-authenticate", "proxy-authorization", "server", "te"),
    *("trailer", "transfer-encoding", "upgrade"),
)


class Streamed(AsyncResponse):
    """Response of the server to one request. No thread waits for it.

    If the client disconnects, the connection to the server is closed too.
    """

    def __init__(
        self, server: str | None, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> None:
        """Prepare a request. `server`: the server's address; None: not known."""
        self._server, self._request = server, (method, target, body, headers)
        self._socket: Any = None
        self._upstream: http.client.HTTPConnection | None = None
        self._response: http.client.HTTPResponse | None = None  # None: the server is not reachable
        self._error = from_app_error(server_unreachable())
        self._error_body = b""

    def head(self) -> tuple[str, list[tuple[str, str]]]:
        parts = urlsplit(self._server or "")
        try:
            if not self._server:
                raise ConnectionError
            self._upstream = http.client.HTTPConnection(parts.hostname or "", parts.port)
            self._socket = gevent.socket.create_connection((parts.hostname, parts.port), CONNECT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(None)  # a request may wait in the client's queue until its deadline
            self._upstream.sock = self._socket
            self._upstream.request(*self._request)
            self._response = self._upstream.getresponse()
        except (OSError, http.client.HTTPException):
            status, error_headers, self._error_body = self._error.response(urlsplit(self._request[1]).path)
            return status, error_headers
        headers = [(name, value) for name, value in self._response.headers.items() if name.lower() not in OWN]
        return f"{self._response.status} {self._response.reason}", headers

    def __iter__(self) -> Iterator[bytes]:
        if self._response is None:
            yield self._error_body
            return
        while piece := self._response.read1(PIECE):
            yield piece

    def on_disconnect(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes its reader

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        if self._upstream is not None:
            self._upstream.close()
