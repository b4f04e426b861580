"""Streamed responses: a greenlet, not a thread, waits for the pieces of the body."""

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

    def gone(self) -> None:
        """Handle the disconnection of the client, which reads nothing further."""
        raise NotImplementedError

    def close(self) -> None:
        """End the response, finished or abandoned."""


def watch(environ: dict[str, Any], gone: Callable[[], None]) -> Any:
    """Return a greenlet that calls `gone` when the client of a request disconnects. Kill it after the response.

    The greenlet ends by itself if the client sends more data, which is a pipelined request.
    """
    connection = environ.get(CONNECTION)
    return None if connection is None else gevent.spawn(_watch, connection, gone)


def _watch(connection: HttpConnection, gone: Callable[[], None]) -> None:
    left = None
    while left is None:
        try:
            left = not connection.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:  # the timeout of the socket
            continue
        except OSError:
            left = True
    if left:
        connection.is_left = True
        gone()
