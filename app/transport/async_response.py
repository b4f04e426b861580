"""Streamed responses, for whose pieces a greenlet waits instead of a thread."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import gevent

from app.transport.connection import CONNECTION, HttpConnection


class AsyncResponse:
    """Streamed body of a Flask response with `direct_passthrough` set. Used on the hub thread only.

    `head` returns the status and headers to send; those of the Flask response are ignored.
    """

    connection: HttpConnection | None = None  # set before `head` is called; None under a test client

    def head(self) -> tuple[str, list[tuple[str, str]]]:
        """Wait for the status line and headers, and return them."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[bytes]:
        raise NotImplementedError

    def on_disconnect(self) -> None:
        """Handle the disconnection of the client."""
        raise NotImplementedError

    def close(self) -> None:
        """End the response, finished or abandoned."""


def watch(environ: dict[str, Any], on_disconnect: Callable[[], None]) -> Any:
    """Return a greenlet that calls `on_disconnect` when the client disconnects. The caller kills it after the response.

    The greenlet ends by itself if the client sends a pipelined request.
    """
    connection = environ.get(CONNECTION)
    return None if connection is None else gevent.spawn(_watch, connection, on_disconnect)


def _watch(connection: HttpConnection, on_disconnect: Callable[[], None]) -> None:
    has_disconnected = None
    while has_disconnected is None:
        try:
            has_disconnected = not connection.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:  # the timeout of the socket
            continue
        except OSError:
            has_disconnected = True
    if has_disconnected:
        connection.has_disconnected = True
        on_disconnect()
