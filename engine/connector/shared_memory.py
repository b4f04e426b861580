"""Link between processes of one machine: blocks are read from the sender's memory, messages use a Unix socket.

    receiver                                              sender
    connects                             ────────►        starts a thread for the connection
    ◄── Registered: the positions of its blocks, and a file descriptor of the memory
    Claim(transfer, blocks)              ────────►        checks that it holds them, and renews their lease
    ◄── Confirmed
    copies them, without the sender
    Claim(transfer)                      ────────►        checks that it still holds them
    ◄── Confirmed: the copy is valid
    ...
    Received(transfer, blocks, bytes)    ────────►        may free them; sends no reply

If the blocks are freed between the two claims, the copy is invalid (`stale`). When a sender ends, its connections end
too, so a restarted sender of the same name is not mistaken for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from engine.connector.link import Sender, TransferError
from engine.connector.peer import Peer, PeerGoneError
from engine.connector.shared_pools import MappedPools, Region, SharedPools
from engine.trace.operations import TransferFault

MESSAGE_TIMEOUT = 5.0  # seconds
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,40}")  # engine name, also used as a file name


class Registered(Struct, tag=True):
    """First message of a sender. The file descriptor of its memory is sent with it."""

    engine_id: str
    regions: list[Region]


class Claim(Struct, tag=True):
    transfer: str
    wanted: list[tuple[int, int]]  # group, block id


class Received(Struct, tag=True):
    transfer: str
    wanted: list[tuple[int, int]]
    num_bytes: int


class Confirmed(Struct, tag=True):
    """Reply to a claim. Without a `reason`, the claim is granted."""

    reason: TransferFault | None = None
    detail: str = ""


class Holder(Protocol):
    """Holder of the blocks (`TransferConnector`). Any thread may call its methods, which may raise TransferError."""

    def claim(self, transfer: str, wanted: Sequence[tuple[int, int]]) -> None: ...
    def received(self, transfer: str, wanted: Sequence[tuple[int, int]], num_bytes: int) -> None: ...


def socket_of(folder: Path, engine_id: str) -> Path:
    """Return the path of an engine's socket.

    Raises:
        ValueError: the name is invalid.
    """
    if not NAME.fullmatch(engine_id):
        raise ValueError(f"an instance cannot be called {engine_id!r}: use up to 41 letters, digits, '_', '.' and '-'")
    return folder / f"{engine_id}.sock"


class BlockServer:
    """Sender's side of the link. It has a thread for each connection."""

    def __init__(self, folder: Path, engine_id: str, holder: Holder, pools: SharedPools, regions: list[Region]) -> None:
        """Listen in `folder`, the private folder of the sockets of engines that exchange blocks.

        The socket of an earlier engine of this name is replaced.
        """
        self._path = socket_of(folder, engine_id)
        self._holder, self._pools = holder, pools
        self._registered = Registered(engine_id, regions)
        self._lock = threading.Lock()
        self._peers = set[Peer[Claim | Received]]()
        self._is_closed = False
        self._path.unlink(missing_ok=True)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._path))
        self._listening.listen()
        threading.Thread(target=self._accept, name="blocks", daemon=True).start()

    def close(self) -> None:
        """Stop accepting connections and close the existing ones."""
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._is_closed = True
            for peer in self._peers:
                peer.close()

    def _accept(self) -> None:
        with self._listening:
            while True:
                try:
                    sock, _ = self._listening.accept()
                except OSError:
                    return  # closed
                peer = Peer[Claim | Received](sock, Claim | Received)
                threading.Thread(target=self._serve, args=(peer,), name="blocks", daemon=True).start()

    def _serve(self, peer: Peer[Claim | Received]) -> None:
        try:
            with self._lock:
                self._peers.add(peer)
                if self._is_closed:
                    return
            file = self._pools.open()
            try:
                peer.send(self._registered, MESSAGE_TIMEOUT, file)
            finally:
                os.close(file)
            while True:
                self._answer(peer, peer.receive())
        except PeerGoneError:
            pass  # the receiver has closed the connection, or has ended, in which case its leases expire
        finally:
            with self._lock:
                self._peers.discard(peer)
            peer.release()

    def _answer(self, peer: Peer[Claim | Received], message: Claim | Received) -> None:
        if isinstance(message, Received):
            with contextlib.suppress(TransferError):  # the blocks are already freed
                self._holder.received(message.transfer, message.wanted, message.num_bytes)
            return
        reply = Confirmed()
        try:
            self._holder.claim(message.transfer, message.wanted)
        except TransferError as error:
            reply = Confirmed(error.reason, error.detail)
        peer.send(reply, MESSAGE_TIMEOUT)


class SharedMemoryLink:
    """Receiver's side of the link, for all engines that listen in a folder."""

    name = "shared memory"

    def __init__(self, folder: Path, timeout: float = MESSAGE_TIMEOUT) -> None:
        """`timeout`: timeout in seconds for a sender's messages."""
        self._folder, self._timeout = folder, timeout
        self._lock = threading.Lock()
        self._senders: dict[str, RemoteSender] = {}

    def to(self, engine_id: str) -> Sender:
        with self._lock:
            sender = self._senders.get(engine_id)
            if sender is None or sender.has_ended:
                sender = self._senders[engine_id] = RemoteSender(self._folder, engine_id, self._timeout)
            return sender


class RemoteSender:
    """Connection to a sender in another process. May be used from any thread."""

    def __init__(self, folder: Path, engine_id: str, timeout: float) -> None:
        """Connect to the sender. Raises TransferError (`gone`) if it does not listen."""
        self._engine_id, self._timeout = engine_id, timeout
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(str(socket_of(folder, engine_id)))
        except (OSError, ValueError) as error:
            sock.close()
            raise TransferError("gone", f"there is no instance {engine_id}") from error
        self._peer = Peer[Registered | Confirmed](sock, Registered | Confirmed)
        self._requesting = threading.Lock()
        self._pools: MappedPools | None = None
        self.has_ended = False

    def read(self, transfer: str, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        with self._requesting:
            pools = self._pools = self._pools or self._map_pools()
        self._claim(transfer, wanted)
        contents = pools.read(wanted)
        try:
            self._claim(transfer, [])
        except TransferError as error:
            if error.reason in ("gone", "lost"):
                raise
            raise TransferError("stale", f"during the read, {error.detail or error.reason}") from error
        return contents

    def renew(self, transfer: str) -> None:
        self._claim(transfer, [])

    def received(self, transfer: str, wanted: Sequence[tuple[int, int]], num_bytes: int) -> None:
        """Confirm without waiting for a reply, so that a stalled sender does not block the receiver."""
        self._send(Received(transfer, list(wanted), num_bytes))

    def _claim(self, transfer: str, wanted: Sequence[tuple[int, int]]) -> None:
        with self._requesting:
            self._pools = self._pools or self._map_pools()  # reads the first message
            self._send(Claim(transfer, list(wanted)))
            reply = self._receive()
        if not isinstance(reply, Confirmed):
            raise self._ended("lost", "it sent an unexpected reply")
        if reply.reason is not None:
            raise TransferError(reply.reason, reply.detail)

    def _map_pools(self) -> MappedPools:
        registered = self._receive()
        file = self._peer.take_file()
        if file is None:
            raise self._ended("lost", "it sent no file descriptor of its memory")
        try:
            if not isinstance(registered, Registered) or registered.engine_id != self._engine_id:
                raise self._ended("gone", "another instance replied")
            return MappedPools(file, registered.regions)
        except (OSError, ValueError, OverflowError) as error:
            raise self._ended("lost", f"its memory cannot be read: {error}") from error
        finally:
            os.close(file)

    def _send(self, message: Claim | Received) -> None:
        try:
            self._peer.send(message, self._timeout)
        except PeerGoneError as error:
            raise self._ended("gone", str(error)) from error

    def _receive(self) -> Registered | Confirmed:
        try:
            return self._peer.receive(self._timeout)
        except TimeoutError as error:
            raise self._ended("lost", f"it sent no message for {self._timeout:g} s") from error
        except PeerGoneError as error:
            raise self._ended("gone", str(error)) from error

    def _ended(self, reason: TransferFault, detail: str) -> TransferError:
        """Close the connection, and return the error to raise."""
        self.has_ended = True
        self._peer.close()
        return TransferError(reason, f"instance {self._engine_id}: {detail}")
