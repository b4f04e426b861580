"""WebSocket on a connection of the server. Neither fragments nor compression can exceed the limit on a message."""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import gevent
from gevent.lock import Semaphore
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Message, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import ProtocolError, generate_accept_token

from app.transport.allowance import READ_SECONDS, SLICE, Allowance, TooMany
from app.transport.connection import CONNECTION, HttpConnection
from app.transport.packets import CONTROL

READ_BYTES = 16 * 1024
_last: tuple[bytes, bytes] = (b"", b"")  # the last message and its frame, cached since many viewers get the same one


class WebSocket:
    """WebSocket for Engine.IO. Engine.IO calls it with the request, and it runs `handle(self)`.

    Accepts no extension, so messages are not compressed. Fragments are joined on arrival, and a message above the limit
    closes the connection with 1009. Processor time and frames are limited too (`app.transport.allowance`): too many
    frames close the connection with 1008.
    """

    def __init__(self, handle: Callable[[WebSocket], Any], server: Any) -> None:
        """Wrap `handle`, a method of the Engine.IO socket of this connection."""
        self._handle: Any = handle
        self._engine: Any = handle.__self__  # type: ignore[attr-defined]
        self._limit: int = server.max_http_buffer_size
        self._silence: float = server.ping_interval + server.ping_timeout  # seconds until a silent client times out
        self._allowance: Allowance = self._engine.queue.allowance
        self._protocol = Connection(ConnectionType.SERVER)
        self._message = bytearray()  # fragments of an incomplete message
        self._messages: deque[str | bytes] = deque()
        self._pinged: Ping | None = None  # the last unanswered ping; earlier ones need no pong (RFC 6455, 5.5.3)
        self._sending = Semaphore()

    def __call__(self, environ: dict[str, Any], _: Any) -> list[bytes]:
        connection: HttpConnection = environ[CONNECTION]
        self._socket, self._input = connection.take_over()
        self._stall = connection.limits.stall_seconds
        self._socket.settimeout(self._silence)
        token = generate_accept_token(environ.get("HTTP_SEC_WEBSOCKET_KEY", "").encode()).decode()
        self._write(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {token}\r\n\r\n".encode()
        )
        self._engine.queue.web_socket = self
        try:
            self._handle(self)
        finally:
            self.end()
            self._handle = self._engine = None  # break a reference cycle with the session
        return []

    def wait(self) -> str | bytes | None:
        """Wait for the next message and return it. Returns None if the connection has ended."""
        try:
            while not self._messages:
                data = self._input.read1(READ_BYTES)
                if not data:
                    return None
                self._process(data)
        except (OSError, ProtocolError, ValueError):  # ValueError: closed, or invalid UTF-8
            self.end()
            return None
        gevent.sleep(0)  # a client that sends continuously must not starve others
        return self._messages.popleft()

    def send(self, message: str | bytes) -> None:
        """Send a message. Raises OSError if it fails or stalls."""
        global _last
        if isinstance(message, str):
            return self._write(self._protocol.send(TextMessage(data=message)))
        if _last[0] is not message:
            _last = message, self._protocol.send(BytesMessage(data=message))
        self._write(_last[1])

    def close(self) -> None:
        """Send a close frame if possible within a second, and end the connection."""
        with contextlib.suppress(OSError, ProtocolError), gevent.Timeout(1.0, False):
            self._write(self._protocol.send(CloseConnection(code=CloseReason.NORMAL_CLOSURE)))
        self.end()

    def end(self) -> None:
        """Shut the connection down, even in the middle of a message."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _process(self, data: bytes) -> None:
        """Process input, yielding after each slice of time."""
        start = time.thread_time() - READ_SECONDS
        self._protocol.receive_data(data)
        for event in self._protocol.events():
            self._handle_event(event)
            if (spent := time.thread_time() - start) > SLICE:
                self._allowance.spend(spent)
                start = time.thread_time()
        spent = time.thread_time() - start
        if self._pinged is not None:
            self._write(self._protocol.send(self._pinged.response()))
            self._pinged = None
        self._allowance.spend(spent)

    def _handle_event(self, event: Event) -> None:
        if not isinstance(event, Message) or event.frame_finished:
            try:
                self._allowance.count()
            except TooMany:
                self._refuse(CloseReason.POLICY_VIOLATION)
        if isinstance(event, Message):
            self._message += event.data.encode() if isinstance(event.data, str) else event.data
            if len(self._message) > self._limit:
                self._refuse(CloseReason.MESSAGE_TOO_BIG)
            if event.message_finished:
                self._messages.append(self._complete_message(isinstance(event, TextMessage)))
        elif isinstance(event, Ping):
            self._pinged = event
        elif isinstance(event, CloseConnection):
            self._write(self._protocol.send(event.response()))
            raise OSError("closed by the client")

    def _complete_message(self, is_text: bool) -> str | bytes:
        """Return the complete message and clear its fragments."""
        found, self._message = bytes(self._message), bytearray()
        if not is_text:
            return found
        text = found.decode()
        if not CONTROL.fullmatch(text):
            raise ValueError("text that is not an Engine.IO control packet")
        return text

    def _refuse(self, reason: CloseReason) -> None:
        self._write(self._protocol.send(CloseConnection(code=reason)))
        raise OSError(reason.name)

    def _write(self, data: bytes) -> None:
        """Write all bytes. A lock prevents interleaved frames."""
        with self._sending:
            rest = memoryview(data)
            while rest:
                with gevent.Timeout(self._stall, TimeoutError("the client does not read")):
                    rest = rest[self._socket.send(rest) :]
