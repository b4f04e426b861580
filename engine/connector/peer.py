"""Messages between two processes of this machine: msgpack over a Unix socket, each with its length before it.

Neither side trusts the other: a late message, or one of an unexpected kind, ends the connection.
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
LONGEST = 1 << 30  # bytes of a message
PIECE = 1 << 18  # bytes per read from the socket
T = TypeVar("T")


class PeerGoneError(ConnectionError):
    """The peer has ended, or sends invalid messages."""


def wait_for_any(files: Iterable[int], seconds: float | None) -> list[int]:
    """Return the file descriptors that can be read or have reached their end, within the time; empty after it."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(None if seconds is None else max(0.0, seconds) * 1000)]


class Peer(Generic[T]):
    """End of a connection that receives messages of type T. One thread receives; any thread may send."""

    def __init__(self, sock: socket.socket, kinds: Any) -> None:
        """`kinds`: the type T, for msgspec."""
        self._socket, self._decoder = sock, msgspec.msgpack.Decoder(kinds)
        self._sending = threading.Lock()
        self._came = bytearray()
        self._messages = deque[T]()
        self._files = list[int]()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Any, timeout: float | None = None, file: int | None = None) -> None:
        """Send a message. `file`: a file descriptor that goes with it.

        Raises:
            PeerGoneError: the peer is gone, or did not take it within `timeout` seconds.
        """
        body = msgspec.msgpack.encode(message)
        data = memoryview(HEAD.pack(len(body)) + body)
        until = None if timeout is None else time.monotonic() + timeout
        with self._sending:
            try:
                if file is not None:
                    data = data[socket.send_fds(self._socket, [data], [file]) :]
                while data:
                    _wait(self._socket, until, for_room=True)
                    with contextlib.suppress(BlockingIOError):
                        data = data[self._socket.send(data, socket.MSG_DONTWAIT) :]
            except (OSError, ValueError) as error:
                self.close()  # half a message is none
                raise PeerGoneError(str(error)) from error

    def receive(self, timeout: float | None = None) -> T:
        """Wait for the next message and return it.

        Raises:
            PeerGoneError: the peer is gone.
            TimeoutError: none has come within `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self._messages:
            try:
                _wait(self._socket, until, for_room=False)
            except TimeoutError:
                raise
            except (OSError, ValueError) as error:  # it was closed on this side
                raise PeerGoneError(str(error)) from error
            self._read()
        return self._messages.popleft()

    def receive_all(self) -> list[T]:
        """Return every pending message, without waiting.

        Raises:
            PeerGoneError: there is none, and the peer is gone.
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
        """Return the first file descriptor that came with a message so far; the caller closes it."""
        return self._files.pop(0) if self._files else None

    def close(self) -> None:
        """Close the connection, from any thread: a waiting receiver is woken. Idempotent."""
        with contextlib.suppress(OSError):  # already closed, or the peer is gone
            self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Release its system resources; no other thread may be using it."""
        self.close()
        self._socket.close()
        while self._files:
            os.close(self._files.pop())

    def _read(self) -> bool:
        """Read available data; return False if there is none."""
        try:
            data, extra, _, _ = self._socket.recvmsg(
                PIECE, socket.CMSG_SPACE(array.array("i").itemsize), receive_flags()
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
        self._came += data
        self._cut()
        return True

    def _cut(self) -> None:
        begin = 0
        while len(self._came) - begin >= HEAD.size:
            (length,) = HEAD.unpack_from(self._came, begin)
            end = begin + HEAD.size + length
            if length > LONGEST:
                self.close()
                raise PeerGoneError(f"a message of {length} bytes was announced")
            if len(self._came) < end:
                break
            try:
                self._messages.append(self._decoder.decode(bytes(self._came[begin + HEAD.size : end])))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                self.close()
                raise PeerGoneError(f"the received data is no message: {error}") from error
            begin = end
        del self._came[:begin]


def _wait(sock: socket.socket, until: float | None, *, for_room: bool) -> None:
    """Wait until the socket is readable, or writable.

    Raises:
        TimeoutError: not in time.
        OSError, ValueError: the socket is closed.
    """
    poll = select.poll()
    poll.register(sock, select.POLLOUT if for_room else select.POLLIN)
    left = None if until is None else max(0.0, until - time.monotonic()) * 1000
    if not poll.poll(left):
        raise TimeoutError("nothing happened in time")
