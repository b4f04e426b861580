"""Validation of the bodies of polling clients' requests, before Engine.IO decodes them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

import gevent

from app.ground.limits import Limits
from app.transport.connection import CONNECTION
from app.transport.packets import is_polled

PATH = "/socket.io"
SEPARATOR = b"\x1e"  # between packets of a payload


class Polling:
    """WSGI middleware in front of Engine.IO. Runs on the hub thread."""

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
        # "d=" begins a form of JSONP, which is not supported
        if body.startswith(b"d=") or body.count(SEPARATOR) >= self._limits.packets or not _is_payload(body):
            return _refused(environ, start_response, "400 Bad Request")
        environ["wsgi.input"] = io.BytesIO(body)
        return self._app(environ, start_response)


def _is_payload(body: bytes) -> bool:
    try:
        return not body or all(map(is_polled, body.decode().split(SEPARATOR.decode())))
    except UnicodeDecodeError:
        return False


def _refused(environ: dict[str, Any], start_response: Callable[..., Any], status: str) -> list[bytes]:
    if CONNECTION in environ:
        environ[CONNECTION].leave_body()
    start_response(status, [("Content-Length", "0"), ("Connection", "close")])
    return []
