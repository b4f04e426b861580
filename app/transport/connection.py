"""HTTP connection, with limits on the time and size of a request's head, and on the number of waiting heads."""

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


class RequestObserver(Protocol):
    """Observer of finished requests. Called on the hub thread, so it must not block."""

    def record(
        self,
        environ: Mapping[str, Any] | None,
        *,
        started_at: float,
        seconds: float,
        status: int | None,
        num_bytes: int,
        disconnected: bool,
    ) -> None:
        """Record a request.

        Args:
            environ: environment of the request; None: its head could not be read.
            started_at: start of the request, in seconds since 1970.
            seconds: duration of the request.
            status: HTTP status; None: no response was started.
            num_bytes: bytes sent, including the head.
            disconnected: whether the client disconnected before the end.
        """


class WaitingHeads:
    """Connections without a complete request, oldest first."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._waiting: dict[HttpConnection, None] = {}

    def add(self, connection: HttpConnection) -> None:
        """Add a connection. Above the limit, close the oldest, since browsers send their requests without delay."""
        self._waiting[connection] = None
        if len(self._waiting) > self._max_waiting:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.give_up()

    def remove(self, connection: HttpConnection) -> None:
        self._waiting.pop(connection, None)


class SafeSocket:
    """Socket that prevents gevent's handler from closing a descriptor on which a greenlet waits.

    An event-loop watcher on a closed descriptor would abort the process. `close` first wakes the waiting greenlets with
    an error: those that send to a client that does not read, or watch for its disconnection.
    """

    def __init__(self, sock: Any) -> None:
        self._green = sock
        self._files: list[Any] = []  # each file keeps the descriptor open

    def __getattr__(self, name: str) -> Any:
        if name == "_sock":  # hidden from the handler, which would close it
            raise AttributeError(name)
        return getattr(self._green, name)

    def makefile(self, *arguments: Any) -> Any:
        self._files.append(self._green.makefile(*arguments))
        return self._files[-1]

    def send_now(self, data: bytes) -> int:
        """Send without waiting. Returns the number of bytes sent. Raises OSError if the client has disconnected."""
        try:
            count: int = self._green._sock.send(data)
        except BlockingIOError:
            return 0
        return count

    def close(self) -> None:
        """Read pending input and close. Unread input would reset the connection, and the last output would be lost."""
        with contextlib.suppress(OSError):
            self._green.settimeout(0.0)
            self._green.recv(16 * 1024)
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()
        self._green.close()


class HttpConnection(WSGIHandler):  # type: ignore[misc]
    """gevent connection with limits on a request's head. A WebSocket can take it over."""

    limits: ClassVar[Limits]
    heads: ClassVar[WaitingHeads]
    observers: ClassVar[Sequence[RequestObserver]]

    def __init__(self, sock: Any, address: Any, server: Any) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        sock.settimeout(self.limits.stall_seconds)
        self._timer: Any = None
        self._environ: dict[str, Any] | None = None  # the request's environment; None before its head is read
        self._is_taken_over = False
        self.has_disconnected = False  # whether the client disconnected during a response
        self._buffer: bytearray | None = None  # data to send together with the next piece
        self._rest = b""  # unsent rest of a piece
        super().__init__(SafeSocket(sock), address, server)

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the client disconnected before the error was sent
            super().handle()
        self._end_head()
        self.environ = self._environ = None  # break reference cycles

    def handle_one_request(self) -> Any:
        """Yield before each request, so that pipelined requests do not starve other clients."""
        gevent.sleep(0)
        return super().handle_one_request()

    def read_requestline(self) -> str:
        self.heads.add(self)
        self._environ = None
        self._start_timer(self.limits.idle_seconds)
        if self.rfile.peek(1):
            self._start_timer(self.limits.head_seconds)
        line: str = super().read_requestline()
        return line

    def read_request(self, raw_requestline: str) -> bool:
        is_valid: bool = super().read_request(raw_requestline)
        self._end_head()
        return is_valid

    def MessageClass(self, *_: Any) -> Any:
        """Read and parse the headers, whose size is limited."""
        head = bytearray()
        while (line := self.rfile.readline(self.limits.head_bytes + 1)).strip(b"\r\n"):
            head += line
            if len(head) > self.limits.head_bytes:
                raise HeadTooLarge
        if not line:
            raise TooSlow("the connection ended within a request's head")
        return super().MessageClass(io.BytesIO(head + b"\r\n"), 0)

    def get_environ(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environ()
        environ[CONNECTION] = self
        environ[ACCESS] = {}
        self._environ = environ
        return environ

    def _write_with_headers(self, data: bytes) -> None:
        """Send the head and the first piece with one system call."""
        self._buffer = bytearray()
        try:
            super()._write_with_headers(data)
        finally:
            buffer, self._buffer = self._buffer, None
        self._sendall(buffer)

    def _sendall(self, data: bytes | bytearray) -> None:
        if self._buffer is None:
            super()._sendall(data)
        else:
            self._buffer += data

    def send_now(self, piece: bytes) -> bool:
        """Send the next piece of a response from any greenlet, without waking the connection's greenlet.

        Returns False if the piece could not be sent completely; `send_rest` then sends the rest.
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
        """Whether there is data for `send_rest`."""
        return bool(self._rest)

    def send_rest(self) -> None:
        """Send the rest of the last piece. Raises OSError."""
        rest, self._rest = self._rest, b""
        if rest:
            self._sendall(rest)

    def take_over(self) -> tuple[Any, Any]:
        """Return the socket and its reader, for another protocol."""
        self.close_connection = True
        self._is_taken_over = True
        return self.socket, self.rfile

    def leave_body(self) -> None:
        """Close the connection after the response, without reading the rest of the request's body."""
        self.close_connection = True
        self.wsgi_input._chunked_input_error = True  # without this flag gevent reads the rest

    def give_up(self) -> None:
        """Shut the connection down from another greenlet; waiting readers see end of file."""
        with contextlib.suppress(OSError, AttributeError):  # AttributeError: already closed
            self.socket.shutdown(socket.SHUT_RDWR)

    def _start_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.close()
        self._timer = gevent.Timeout.start_new(seconds, TooSlow("the request's head did not arrive in time"))

    def _end_head(self) -> None:
        self.heads.remove(self)
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def _handle_client_error(self, error: Exception) -> tuple[str, bytes]:
        """Return the response to a client's error, which is not logged."""
        statuses = {TooSlow: "408 Request Timeout", HeadTooLarge: "431 Request Header Fields Too Large"}
        status = statuses.get(type(error), "400 Bad Request")
        return status[:3], f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()

    def log_request(self) -> None:
        """Report a finished request. Called by gevent."""
        code = self.status[:3] if self.status else ""
        failed = bool(self.status) and not code.isdigit()  # status is then "socket error", and the code is negative
        status = int(code) if code.isdigit() else abs(self.code) if failed and self.headers_sent else None
        for observer in self.observers:
            observer.record(
                self._environ,
                started_at=self.time_start,
                seconds=self.time_finish - self.time_start,
                status=101 if self._is_taken_over else status,
                num_bytes=self.response_length,
                disconnected=failed or self.has_disconnected,
            )

    def handle_error(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, (OSError, gevent.GreenletExit)):  # the client disconnected or stalled, or the server stops
            self.close_connection = True
        else:
            super().handle_error(kind, error, traceback)
