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

CONNECTION = "kvtheater.connection"  # key in a request's environment: its HttpConnection
SEND_BUFFER = 256 * 1024  # bytes that the system buffers for a client


class TooSlow(OSError):
    """The head of a request was not complete in time."""


class HeadTooLarge(ValueError):
    """The head of a request exceeds the limit."""


class Noting(Protocol):
    """Callback for each finished request, on the hub thread, which must not block."""

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

        `status` None: no response began. `num_bytes`: sent, head included. `gone`: the client left before the end.
        """


class WaitingHeads:
    """Connections without a complete request, oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[HttpConnection, None] = {}

    def add(self, connection: HttpConnection) -> None:
        """Add a connection. Beyond the limit the oldest one is closed, since browsers send requests at once."""
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
        self._files: list[Any] = []  # each keeps the descriptor open

    def __getattr__(self, name: str) -> Any:
        if name == "_sock":  # the handler would close it
            raise AttributeError(name)
        return getattr(self._green, name)

    def makefile(self, *arguments: Any) -> Any:
        self._files.append(self._green.makefile(*arguments))
        return self._files[-1]

    def send_now(self, data: bytes) -> int:
        """Send without waiting. Returns the number of bytes sent. Raises OSError if the client has left."""
        try:
            count: int = self._green._sock.send(data)
        except BlockingIOError:
            return 0
        return count

    def close(self) -> None:
        """Read pending input, then close: closing with unread input resets the connection and loses the last output."""
        with contextlib.suppress(OSError):
            self._green.settimeout(0.0)
            self._green.recv(16 * 1024)
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()
        self._green.close()


class HttpConnection(WSGIHandler):  # type: ignore[misc]
    """gevent's connection with limits on a request's head, which a web socket can take over."""

    limits: ClassVar[Limits]
    heads: ClassVar[WaitingHeads]
    noted_by: ClassVar[Sequence[Noting]]

    def __init__(self, sock: Any, address: Any, server: Any) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        sock.settimeout(self.limits.stall_seconds)
        self._timer: Any = None
        self._environ: dict[str, Any] | None = None  # the request's environment; None before its head is read
        self._is_taken_over = False
        self.is_left = False  # the client left during a response
        self._held: bytearray | None = None  # sent together with the next piece
        self._rest = b""  # unsent rest of a piece
        super().__init__(SafelyClosed(sock), address, server)

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the client left before the error was sent
            super().handle()
        self._head_is_here()
        self.environ = self._environ = None  # break reference cycles

    def handle_one_request(self) -> Any:
        """Yield before each request, so that pipelined requests do not starve other clients."""
        gevent.sleep(0)
        return super().handle_one_request()

    def read_requestline(self) -> str:
        self.heads.add(self)
        self._environ = None
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
        """Read all headers, within the limit, before they are parsed."""
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
        self._environ = environ
        return environ

    def _write_with_headers(self, data: bytes) -> None:
        """Send the head and the first piece with one system call."""
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
        """Send the next piece of a response from any greenlet, without waking the connection's own.

        Returns False if it could not be sent at once; then `send_rest` sends the rest.
        """
        framed = b"%x\r\n%b\r\n" % (len(piece), piece) if self.response_use_chunked else piece
        try:
            count = self.socket.send_now(framed)
        except OSError:  # `send_rest` raises it again
            count = 0
        self.response_length += count
        self._rest = framed[count:]
        return not self._rest

    @property
    def has_rest(self) -> bool:
        """Whether `send_rest` has something to send."""
        return bool(self._rest)

    def send_rest(self) -> None:
        """Send the rest of the last piece. Raises OSError."""
        rest, self._rest = self._rest, b""
        if rest:
            self._sendall(rest)

    def taken_over(self) -> tuple[Any, Any]:
        """Return the socket and its reader for another protocol."""
        self.close_connection = True
        self._is_taken_over = True
        return self.socket, self.rfile

    def leave_body(self) -> None:
        """Close the connection after the response, without reading the rest of the request's body."""
        self.close_connection = True
        self.wsgi_input._chunked_input_error = True  # without this flag gevent reads the rest

    def give_up(self) -> None:
        """Shut the connection down from another greenlet; waiting readers see its end."""
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
        """Answer a client's error without logging it."""
        what = {TooSlow: "408 Request Timeout", HeadTooLarge: "431 Request Header Fields Too Large"}
        status = what.get(type(error), "400 Bad Request")
        return status[:3], f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()

    def log_request(self) -> None:
        """Report a finished request. Called by gevent."""
        code = self.status[:3] if self.status else ""
        gone = bool(self.status) and not code.isdigit()  # "socket error" is there then, and the code is negative
        status = int(code) if code.isdigit() else abs(self.code) if gone and self.headers_sent else None
        for one in self.noted_by:
            one.note(
                self._environ,
                began=self.time_start,
                seconds=self.time_finish - self.time_start,
                status=101 if self._is_taken_over else status,
                num_bytes=self.response_length,
                gone=gone or self.is_left,
            )

    def handle_error(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, (OSError, gevent.GreenletExit)):  # the client left or does not read, or the server ends
            self.close_connection = True
        else:
            super().handle_error(kind, error, traceback)
