"""Messages between two processes of this machine: msgpack over a Unix socket, each preceded by its length.

Neither side trusts the other. A late message, or one of an unexpected type, ends the connection.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import msgspec

from engine.system.host import receive_flags

HEAD = struct.Struct("<I")
MAX_MESSAGE_BYTES = 1 << 30
READ_BYTES = 1 << 18  # maximum bytes of a read from the socket
T = TypeVar("T")


class PeerGoneError(ConnectionError):
    """The peer has ended, or sends invalid messages."""


def wait_for_any(files: Iterable[int], seconds: float | None) -> list[int]:
    """Wait for up to `seconds`. Returns the file descriptors that are readable or at their end."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(None if seconds is None else max(0.0, seconds) * 1000)]


class Peer(Generic[T]):
    """End of a connection that receives messages of type T. One thread receives; any thread may send."""

    def __init__(self, sock: socket.socket, kinds: Any) -> None:
        """Use a connected socket. `kinds`: the type T, for msgspec."""
        self._socket, self._decoder = sock, msgspec.msgpack.Decoder(kinds)
        self._sending = threading.Lock()
        self._buffer = bytearray()  # received bytes of incomplete messages
        self._messages = deque[T]()
        self._files = list[int]()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Any, timeout: float | None = None, file: int | None = None) -> None:
        """Send a message. `file`: a file descriptor to send with it.

        Raises:
            PeerGoneError: the peer is gone, or did not read the message within `timeout` seconds.
        """
        body = msgspec.msgpack.encode(message)
        data = memoryview(HEAD.pack(len(body)) + body)
        until = None if timeout is None else time.monotonic() + timeout
        with self._sending:
            try:
                if file is not None:
                    data = data[socket.send_fds(self._socket, [data], [file]) :]
                while data:
                    _wait(self._socket, until, writable=True)
                    with contextlib.suppress(BlockingIOError):
                        data = data[self._socket.send(data, socket.MSG_DONTWAIT) :]
            except (OSError, ValueError) as error:
                self.close()  # a partial message cannot be continued
                raise PeerGoneError(str(error)) from error

    def receive(self, timeout: float | None = None) -> T:
        """Wait for the next message and return it.

        Raises:
            PeerGoneError: the peer is gone.
            TimeoutError: no message arrived within `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self._messages:
            try:
                _wait(self._socket, until, writable=False)
            except TimeoutError:
                raise
            except (OSError, ValueError) as error:  # this side has closed the socket
                raise PeerGoneError(str(error)) from error
            self._read()
        return self._messages.popleft()

    def receive_all(self) -> list[T]:
        """Return all pending messages, without waiting.

        Raises:
            PeerGoneError: there are none, and the peer is gone.
        """
        try:
            while self._read():
                pass
        except PeerGoneError:
            if not self._messages:
                raise
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def take_file(self) -> int | None:
        """Return the next received file descriptor, if any. The caller closes it."""
        return self._files.pop(0) if self._files else None

    def close(self) -> None:
        """Close the connection and wake a waiting receiver. Any thread may call it. Idempotent."""
        with contextlib.suppress(OSError):  # already closed, or the peer is gone
            self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Close the connection and its file descriptors. No other thread may be using it."""
        self.close()
        self._socket.close()
        while self._files:
            os.close(self._files.pop())

    def _read(self) -> bool:
        """Read available data. Returns False if there is none."""
        try:
            data, extra, _, _ = self._socket.recvmsg(
                READ_BYTES, socket.CMSG_SPACE(array.array("i").itemsize), receive_flags()
            )
        except BlockingIOError:
            return False
        except OSError as error:
            raise PeerGoneError(str(error)) from error
        for level, kind, content in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(content[: len(content) - len(content) % found.itemsize])
                for file in found:
                    os.set_inheritable(file, False)
                self._files += found
        if not data:
            raise PeerGoneError("the connection was closed")
        self._buffer += data
        self._decode_messages()
        return True

    def _decode_messages(self) -> None:
        """Move the complete messages of the buffer to `_messages`."""
        begin = 0
        while len(self._buffer) - begin >= HEAD.size:
            (length,) = HEAD.unpack_from(self._buffer, begin)
            end = begin + HEAD.size + length
            if length > MAX_MESSAGE_BYTES:
                self.close()
                raise PeerGoneError(f"a message of {length} bytes exceeds the limit of {MAX_MESSAGE_BYTES} bytes")
            if len(self._buffer) < end:
                break
            try:
                self._messages.append(self._decoder.decode(bytes(self._buffer[begin + HEAD.size : end])))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                self.close()
                raise PeerGoneError(f"the received data is not a message: {error}") from error
            begin = end
        del self._buffer[:begin]


def _wait(sock: socket.socket, until: float | None, *, writable: bool) -> None:
    """Wait until the socket is readable, or writable, at most until the time `until`.

    Raises:
        TimeoutError: the time is over.
        OSError, ValueError: the socket is closed.
    """
    poll = select.poll()
    poll.register(sock, select.POLLOUT if writable else select.POLLIN)
    milliseconds = None if until is None else max(0.0, until - time.monotonic()) * 1000
    if not poll.poll(milliseconds):
        raise TimeoutError("the socket was not ready in time")
