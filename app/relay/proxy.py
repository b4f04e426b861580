"""Forwarding of HTTP requests from a web worker to the server."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import urlsplit

from flask import Request, Response
from werkzeug.exceptions import HTTPException

from app.ground.callers import address_of
from app.openai.errors import from_http_error
from app.openai.paths import MAX_BYTES
from app.relay.link import server_unreachable
from app.relay.streamed import OWN, PIECE, Streamed
from app.transport.connection import CONNECTION

SILENCE_SECONDS = 120.0  # without data, after which a response fails
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class Proxy:
    """Proxy that forwards requests to the server. Runs on worker threads."""

    def __init__(self, server: Callable[[], str | None]) -> None:
        """Set up the proxy. `server` returns the server's address, or None if it is not known yet."""
        self._server = server

    def answer(self, request: Request) -> Response:
        """Forward a request and return the streamed response.

        Raises:
            AppError: `loading`: the server is not reachable.
        """
        server = self._server()
        if server is None:
            raise server_unreachable()
        parts = urlsplit(server)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SILENCE_SECONDS)
        try:
            connection.request(request.method, _target(request.environ), _body(request), _headers(request))
            found = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise server_unreachable() from error
        headers = [(name, value) for name, value in found.headers.items() if name.lower() not in OWN]
        return Response(_pieces(connection, found), found.status, headers, direct_passthrough=True)

    def stream(self, request: Request) -> Response:
        """Forward a request of an API client. A greenlet, not a thread, waits for the response, which may be long."""
        request.max_content_length = MAX_BYTES
        try:
            body = request.get_data(cache=False) or None
        except HTTPException as error:  # the body is too long or too slow
            status, headers, data = from_http_error(error, request).response(request.path)
            return Response(data, status, headers)
        answer = Streamed(self._server(), request.method, _target(request.environ), body, _headers(request))
        return Response(answer, direct_passthrough=True)


def _target(environ: dict[str, Any]) -> str:
    """Return path and query of a request as received, without decoding."""
    target = str(environ[CONNECTION].path)
    return target if target.startswith("/") else urlsplit(target)._replace(scheme="", netloc="").geturl() or "/"


def _headers(request: Request) -> dict[str, str]:
    """Return the headers to forward, with the client's address."""
    headers = {name: value for name, value in request.headers.items() if name.lower() not in OWN}
    return {**headers, "X-Forwarded-For": address_of(request.environ), "Connection": "close"}


def _body(request: Request) -> Any:
    """Return the unread body, or None if the request has none."""
    if request.content_length is None and "chunked" not in request.headers.get("Transfer-Encoding", ""):
        return None
    return iter(lambda: cast(bytes, request.environ["wsgi.input"].read(PIECE)), b"")


def _pieces(connection: http.client.HTTPConnection, found: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while piece := found.read1(PIECE):
            yield piece
    finally:
        connection.close()
