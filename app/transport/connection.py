"""HTTP connection: limits on the time and size of a request's head, and on the number of waiting heads."""

from __future__ import annotations

import contextlib
import io
import socket
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import gevent
from gevent.pywsgi import WSGIHandler

from app.ground.limits import Limits
from app.transport.access_log import ACCESS

CONNECTION = "kvtheater.connection"  # in a request's environment: its HttpConnection
SEND_BUFFER = 256 * 1024  # bytes that the system keeps for a client that does not read


class TooSlow(OSError):
    """The head of a request did not come in time."""


class HeadTooLarge(ValueError):
    """The head of a request is over the bound."""


class Noting(Protocol):
    """Callback for each finished request, on the hub thread: it must not block."""

    def note(
        self,
        environ: Mapping[str, Any] | None,
        *,
        began: float,
        seconds: float,
        status: int | None,
        num_bytes: int,
        gone: bool,
    ) -> None:
        """Note a request. `environ` None: its head could not be read. `began`: seconds since 1970.

        `status` None: no answer began. `num_bytes`: sent, the head too. `gone`: the client left before the end.
        """


class WaitingHeads:
    """The connections that have not sent a whole request yet, oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[HttpConnection, None] = {}

    def add(self, connection: HttpConnection) -> None:
        """The connection that has waited longest makes room: a browser sends its request at once."""
        self._waiting[connection] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.give_up()

    def remove(self, connection: HttpConnection) -> None:
        self._waiting.pop(connection, None)


class SafelyClosed:
    """Socket of a connection for gevent's handler, which would close the descriptor under a waiting greenlet.

    A watcher of the event loop on a closed descriptor ends the process. So waiting greenlets (sending to a client that
    does not read, or watching for its departure) are woken with an error first, by the socket's own `close`.
    """

    def __init__(self, sock: Any) -> None:
        self._green = sock
        self._files: list[Any] = []  # each keeps the descriptor open as long as it is

    def __getattr__(self, name: str) -> Any:
        if name == "_sock":  # what the handler would close
            raise AttributeError(name)
        return getattr(self._green, name)

    def makefile(self, *arguments: Any) -> Any:
        self._files.append(self._green.makefile(*arguments))
        return self._files[-1]

    def send_now(self, data: bytes) -> int:
        """Return how many bytes the system takes without waiting. Raises OSError: the client has left."""
        try:
            count: int = self._green._sock.send(data)
        except BlockingIOError:
            return 0
        return count

    def close(self) -> None:
        """Read what has come first: a connection that is closed with something unread is reset, its last words lost."""
        with contextlib.suppress(OSError):
            self._green.settimeout(0.0)
            self._green.recv(16 * 1024)
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()
        self._green.close()


class HttpConnection(WSGIHandler):  # type: ignore[misc]
    """gevent's connection with bounds on a request's head, and a way for a web socket to take it over."""

    limits: ClassVar[Limits]
    heads: ClassVar[WaitingHeads]
    noted_by: ClassVar[Sequence[Noting]]

    def __init__(self, sock: Any, address: Any, server: Any) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        sock.settimeout(self.limits.stall_seconds)
        self._timer: Any = None
        self._asked: dict[str, Any] | None = None  # the request's environment; None: its head is not here
        self._is_taken_over = False
        self.is_left = False  # by its client, in the middle of an answer
        self._held: bytearray | None = None  # what is sent together with what comes next
        self._rest = b""  # of a piece of an answer, that the system did not take at once
        super().__init__(SafelyClosed(sock), address, server)

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the client has left before the error could be sent
            super().handle()
        self._head_is_here()
        self.environ = self._asked = None  # which name this connection: it would stay until garbage is collected

    def handle_one_request(self) -> Any:
        """gevent's; a client that sends one request after the other without waiting must not keep others waiting."""
        gevent.sleep(0)
        return super().handle_one_request()

    def read_requestline(self) -> str:
        self.heads.add(self)
        self._asked = None
        self._within(self.limits.idle_seconds)
        if self.rfile.peek(1):
            self._within(self.limits.head_seconds)
        line: str = super().read_requestline()
        return line

    def read_request(self, raw_requestline: str) -> bool:
        good: bool = super().read_request(raw_requestline)
        self._head_is_here()
        return good

    def MessageClass(self, *_: Any) -> Any:
        """The headers: taken whole, as far as they may be, before anything is made of them."""
        head = bytearray()
        while (line := self.rfile.readline(self.limits.head_bytes + 1)).strip(b"\r\n"):
            head += line
            if len(head) > self.limits.head_bytes:
                raise HeadTooLarge
        if not line:
            raise TooSlow("the connection ended in the middle of a request's head")
        return super().MessageClass(io.BytesIO(head + b"\r\n"), 0)

    def get_environ(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environ()
        environ[CONNECTION] = self
        environ[ACCESS] = {}
        self._asked = environ
        return environ

    def _write_with_headers(self, data: bytes) -> None:
        """gevent's, the head and the first piece at once: a client waits for both, and each call has its price."""
        self._held = bytearray()
        try:
            super()._write_with_headers(data)
        finally:
            held, self._held = self._held, None
        self._sendall(held)

    def _sendall(self, data: bytes | bytearray) -> None:
        if self._held is None:
            super()._sendall(data)
        else:
            self._held += data

    def send_now(self, piece: bytes) -> bool:
        """Send the next piece of an answer whose head is sent, from any greenlet, without waking its own.

        False: the client does not take it, and the rest waits for `send_rest`.
        """
        framed = b"%x\r\n%b\r\n" % (len(piece), piece) if self.response_use_chunked else piece
        try:
            count = self.socket.send_now(framed)
        except OSError:  # the greenlet meets it again
            count = 0
        self.response_length += count
        self._rest = framed[count:]
        return not self._rest

    @property
    def has_rest(self) -> bool:
        """Whether something waits for `send_rest`."""
        return bool(self._rest)

    def send_rest(self) -> None:
        """Send the rest of the last piece, as fast as the client takes it. Raises OSError."""
        rest, self._rest = self._rest, b""
        if rest:
            self._sendall(rest)

    def taken_over(self) -> tuple[Any, Any]:
        """Return the socket and its reader, handed over to another protocol."""
        self.close_connection = True
        self._is_taken_over = True
        return self.socket, self.rfile

    def leave_body(self) -> None:
        """The rest of the request's body is not waited for: after the answer the connection is closed."""
        self.close_connection = True
        self.wsgi_input._chunked_input_error = True  # gevent's own flag: else it reads the rest, however slow

    def give_up(self) -> None:
        """End the connection from another greenlet: readers that wait on it see its end."""
        with contextlib.suppress(OSError, AttributeError):  # AttributeError: it has ended already
            self.socket.shutdown(socket.SHUT_RDWR)

    def _within(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.close()
        self._timer = gevent.Timeout.start_new(seconds, TooSlow("the request's head did not come in time"))

    def _head_is_here(self) -> None:
        self.heads.remove(self)
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def _handle_client_error(self, error: Exception) -> tuple[str, bytes]:
        """No line in the terminal for what a client does wrong."""
        what = {TooSlow: "408 Request Timeout", HeadTooLarge: "431 Request Header Fields Too Large"}
        status = what.get(type(error), "400 Bad Request")
        return status[:3], f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()

    def log_request(self) -> None:
        """gevent's hook, at the end of each request."""
        said = self.status[:3] if self.status else ""
        gone = bool(self.status) and not said.isdigit()  # "socket error" is there then, and the code is negative
        status = int(said) if said.isdigit() else abs(self.code) if gone and self.headers_sent else None
        for one in self.noted_by:
            one.note(
                self._asked,
                began=self.time_start,
                seconds=self.time_finish - self.time_start,
                status=101 if self._is_taken_over else status,
                num_bytes=self.response_length,
                gone=gone or self.is_left,
            )

    def handle_error(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, (OSError, gevent.GreenletExit)):  # the client went away or does not read; the server ends
            self.close_connection = True
        else:
            super().handle_error(kind, error, traceback)
