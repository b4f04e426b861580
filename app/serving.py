"""Listening: a socket bound before the model is loaded, a server in a thread, a clean end."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from app.assets import PREFIX

DEFAULT_PORT = 8765
PORTS_TO_TRY = 20
IDLE_SECONDS = 15.0  # a connection on which nothing more is asked for is closed


class PortError(ValueError):
    """The address cannot be listened on; one sentence that says what to do."""


def bind(host: str, port: int | None) -> socket.socket:
    """A socket bound to the address, not listening yet. port None: the default one or the next that is free; 0: any.

    Raises:
        PortError: the port is taken, or the address is not this machine's.
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
            raise PortError(f"a port is a number from 0 to 65535, not {candidate}") from None
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


class Listener:
    """Serves an application on a bound socket, in a thread of its own, until closed."""

    def __init__(self, app: Flask, bound: socket.socket) -> None:
        """Returns when connections are accepted."""
        host, self.port = bound.getsockname()[:2]
        self._app = app
        bound.listen(128)
        self._server = make_server(host, self.port, app, threaded=True, request_handler=_Quiet, fd=bound.fileno())
        bound.close()  # the server has its own descriptor of it
        self._server.daemon_threads = True  # type: ignore[attr-defined]
        self._server.block_on_close = False  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no more connections, then close the theaters and delete their logs."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._app.extensions["kvtheater"].close()


class _Quiet(WSGIRequestHandler):
    """No line per request, no word about clients that go away in the middle of one, and connections that stay open.

    A first visit asks for two hundred small files. Werkzeug closes the connection after each answer, because it cannot
    know whether an application has read its request to the end; a request without a body has no end to be read to, so
    for the page's own files the connection stays for the next.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the body of a small answer would wait for the headers to be acknowledged

    def run_wsgi(self) -> None:
        self.connection.settimeout(None)  # of a web socket nobody knows when it speaks next
        if self._asks_for_a_file():
            self._answer_and_stay()
        else:
            super().run_wsgi()

    def _asks_for_a_file(self) -> bool:
        has_body = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        stays = self.request_version >= "HTTP/1.1" and "close" not in self.headers.get("Connection", "").lower()
        return self.command in ("GET", "HEAD") and self.path.startswith(PREFIX) and stays and not has_body

    def _answer_and_stay(self) -> None:
        answered: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> Callable[..., None]:
            answered.append((status, headers))
            return lambda _: None

        parts = self.server.app(self.make_environ(), start_response)  # type: ignore[attr-defined]
        try:
            body = b"".join(parts)
        finally:
            if hasattr(parts, "close"):
                parts.close()
        status, headers = answered[-1]
        code, _, reason = status.partition(" ")
        self.send_response(int(code), reason)
        for name, value in headers:
            self.send_header(name, value)
        if code != "304" and all(name.lower() != "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "keep-alive")  # which is also what keeps this handler listening
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.connection.settimeout(IDLE_SECONDS)

    def log(self, type: str, message: str, *args: object) -> None:
        pass

    def connection_dropped(self, error: BaseException, environ: object = None) -> None:
        self.close_connection = True  # also how a web socket ends: there is no further request to wait for on it

    def version_string(self) -> str:
        return "kvtheater"
