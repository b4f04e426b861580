"""Responses whose body comes later, in pieces: a greenlet waits for them, and no thread does."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import gevent

from app.transport.connection import CONNECTION, HttpConnection


class AsyncResponse:
    """Body of an endpoint's response that comes later, with `direct_passthrough` set. Used on the hub thread only.

    The response's own status and headers are not sent: `head` returns them when they are known.
    """

    connection: HttpConnection | None = None  # set before `head` is called; None: a test's client

    def head(self) -> tuple[str, list[tuple[str, str]]]:
        """Status line and headers, as soon as there are some."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[bytes]:
        raise NotImplementedError

    def gone(self) -> None:
        """Handle a departed client: nothing is read any more."""
        raise NotImplementedError

    def close(self) -> None:
        """End the response, finished or abandoned."""


def watch(environ: dict[str, Any], gone: Callable[[], None]) -> Any:
    """Return a greenlet that calls `gone` when the client of a request leaves; to be killed when its response is over.

    It ends by itself when the client sends more: a request in advance, which waits for its turn.
    """
    connection = environ.get(CONNECTION)
    return None if connection is None else gevent.spawn(_watch, connection, gone)


def _watch(connection: HttpConnection, gone: Callable[[], None]) -> None:
    left = None
    while left is None:
        try:
            left = not connection.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:  # the socket's own
            continue
        except OSError:
            left = True
    if left:
        connection.is_left = True
        gone()
