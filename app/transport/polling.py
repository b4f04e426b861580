"""Requests of polling clients: their bodies are read and checked before Engine.IO decodes them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

import gevent

from app.ground.limits import Limits
from app.transport.connection import CONNECTION
from app.transport.packets import is_polled

PATH = "/socket.io"
BETWEEN = b"\x1e"  # packets of a payload


class Polling:
    """WSGI middleware in front of Engine.IO's, on the hub thread."""

    def __init__(self, app: Callable[..., Iterable[bytes]], limits: Limits, max_bytes: int) -> None:
        self._app, self._limits, self._max_bytes = app, limits, max_bytes

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "POST" or not environ["PATH_INFO"].startswith(PATH):
            return self._app(environ, start_response)
        length = environ.get("CONTENT_LENGTH") or "0"
        if int(length) > self._max_bytes:
            return _refused(environ, start_response, "413 Content Too Large")
        try:
            with gevent.Timeout(self._limits.stall_seconds, TimeoutError):
                body = environ["wsgi.input"].read(int(length))
        except TimeoutError:
            return _refused(environ, start_response, "408 Request Timeout")
        # a form is JSONP, which no client of ours speaks
        if body.startswith(b"d=") or body.count(BETWEEN) >= self._limits.packets or not _is_payload(body):
            return _refused(environ, start_response, "400 Bad Request")
        environ["wsgi.input"] = io.BytesIO(body)
        return self._app(environ, start_response)


def _is_payload(body: bytes) -> bool:
    try:
        return not body or all(map(is_polled, body.decode().split(BETWEEN.decode())))
    except UnicodeDecodeError:
        return False


def _refused(environ: dict[str, Any], start_response: Callable[..., Any], status: str) -> list[bytes]:
    if CONNECTION in environ:
        environ[CONNECTION].leave_body()
    start_response(status, [("Content-Length", "0"), ("Connection", "close")])
    return []
