"""Binding of the server's port, serving on a thread, and shutdown."""

from __future__ import annotations

import contextlib
import errno
import socket

from flask import Flask

from app.relay.relays import Relays

DEFAULT_PORT = 8765
PORTS_TO_TRY = 20


class PortError(ValueError):
    """The server cannot listen on the address. The message is one sentence with a remedy."""


def bind(host: str, port: int | None) -> socket.socket:
    """Return a socket that is bound to the address and does not listen yet. `port` None: the default port, or the next
    free one after it; 0: any free port.

    Raises:
        PortError: the port is in use, or the address is not this machine's.
    """
    for candidate in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TO_TRY) if port is None else [port]:
        try:
            return _bind(host.strip("[]"), candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                if port is None:
                    continue
                raise PortError(
                    f"port {port} is in use by another program; choose another with --port, or --port 0 for a free one"
                ) from error
            raise PortError(f"cannot listen on {host} port {candidate}: {error.strerror or error}") from error
        except OverflowError:
            raise PortError(f"the port must be from 0 to 65535, not {candidate}") from None
    raise PortError(f"ports {DEFAULT_PORT} to {DEFAULT_PORT + PORTS_TO_TRY - 1} are all in use; choose one with --port")


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


def free_ports(host: str = "127.0.0.1") -> list[int]:
    """Return the default ports that are free."""
    found = []
    for port in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TO_TRY):
        with contextlib.suppress(OSError):
            _bind(host, port).close()
            found.append(port)
    return found


class Listener:
    """Server of an application on a bound socket, on a separate thread."""

    def __init__(self, app: Flask, bound: socket.socket) -> None:
        """Start the server. Returns when connections are accepted."""
        self.port: int = bound.getsockname()[1]
        self._ending = app.extensions["kvtheater.ending"]
        self._sessions = app.extensions["kvtheater"]
        self._transport = app.extensions["kvtheater.transport"]
        self._relays: Relays | None = app.extensions.get("kvtheater.relays")
        host = bound.getsockname()[0]
        self._thread = self._transport.start(app, bound)
        if self._relays is not None:
            self._relays.start(_address(host, self.port))

    def close(self) -> int:
        """Stop accepting connections, close the sessions and delete their logs, then end the connections.

        Returns the number of sessions that were still at a step (`SessionManager.close`).
        """
        self._transport.refuse_more()
        for end in self._ending:
            end()
        left: int = self._sessions.close()
        if self._relays is not None:
            self._relays.stop()
        self._transport.stop()
        self._thread.join()
        return left


def _address(host: str, port: int) -> str:
    """Return the URL at which this machine reaches a server that listens on `host`."""
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{local}]:{port}" if ":" in local else f"http://{local}:{port}"
