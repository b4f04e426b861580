"""Links that move keys and values between instances.

The decode instance reads blocks that the prefill instance holds for it, as with NIXL in vLLM. The sender owns the
blocks until the receiver has confirmed them.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

from engine.trace.operations import TransferFault

MAX_READ_SECONDS = 60.0  # maximum duration of a read on a throttled link


class TransferError(RuntimeError):
    """A transfer failed. `reason`: reason in the trace."""

    def __init__(self, reason: TransferFault, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: TransferFault = reason
        self.detail = detail


class RemoteBlocks(NamedTuple):
    """Blocks of a prefilled prompt that an instance holds for another one."""

    engine_id: str  # instance that holds them
    transfer: str
    layout: bytes  # digest of the block layout (`engine.connector.layout`)
    num_tokens: int  # computed tokens
    text: bytes  # digest of these tokens (`text_of`)
    block_tables: list[list[int]]  # of each group of layers; RELEASED for released blocks


def text_of(token_ids: Sequence[int], cache_salt: str | None) -> bytes:
    """Return a digest of tokens and their salt, which identifies their keys and values."""
    salt = b"" if cache_salt is None else b"\x01" + cache_salt.encode()
    body = struct.pack(f"<Q{len(token_ids)}q", len(token_ids), *token_ids)
    return blake2b(body + salt, digest_size=16, person=b"kvt-transfer").digest()


class Sender(Protocol):
    """Sender of blocks, on the remote side of a link."""

    def read(self, transfer: str, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the content of blocks (group, block id) of a transfer.

        Raises:
            TransferError: `unknown`, `consumed`, `expired`, `stale` or `out_of_range`.
        """

    def renew(self, transfer: str) -> None:
        """Renew the lease of blocks that the receiver still needs."""

    def received(self, transfer: str, wanted: Sequence[tuple[int, int]], num_bytes: int) -> None:
        """Confirm that the receiver has the wanted blocks, so that the sender may free them."""


class Link(Protocol):
    """Link to other instances, by engine id."""

    @property
    def name(self) -> str:
        """Name of the link in the trace."""

    def to(self, engine_id: str) -> Sender:
        """Return the sender of an instance.

        Raises:
            TransferError: `gone`, if there is no such instance.
        """


class LocalLink:
    """Link between engines of one process. A read is a copy in memory."""

    name = "local"

    def __init__(self, senders: Mapping[str, Sender]) -> None:
        self._senders = senders

    def to(self, engine_id: str) -> Sender:
        sender = self._senders.get(engine_id)
        if sender is None:
            raise TransferError("gone", f"there is no instance {engine_id}")
        return sender


class ThrottledLink:
    """Wrapper that limits the bytes per second of a link. Its name contains the limit.

    A read takes at most MAX_READ_SECONDS. `close` ends all waiting reads.
    """

    def __init__(
        self,
        link: Link,
        bytes_per_second: float,
        sleep: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._link, self._rate, self._clock = link, bytes_per_second, clock
        self._closed = threading.Event()
        self._sleep = sleep or self._closed.wait
        self.name = f"{link.name}, throttled to {bytes_per_second / 1e6:g} MB/s"

    def to(self, engine_id: str) -> Sender:
        return _Throttled(self._link.to(engine_id), self)

    def close(self) -> None:
        """End all waiting reads."""
        self._closed.set()

    def throttle(self, num_bytes: int, began: float) -> None:
        """Wait until the time since `began` suffices to transfer `num_bytes` bytes.

        Raises:
            TransferError: `late` or `gone`.
        """
        seconds = num_bytes / self._rate
        self._sleep(max(0.0, min(seconds, MAX_READ_SECONDS) - (self._clock() - began)))
        if self._closed.is_set():
            raise TransferError("gone", "the link is closed")
        if seconds > MAX_READ_SECONDS:
            duration = f"{num_bytes} bytes need {seconds:.3g} s on this link"
            raise TransferError("late", f"{duration}; the limit is {MAX_READ_SECONDS:g} s")


class _Throttled:
    def __init__(self, sender: Sender, link: ThrottledLink) -> None:
        self._sender, self._link = sender, link
        self.renew, self.received = sender.renew, sender.received

    def read(self, transfer: str, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        began = self._link._clock()
        contents = self._sender.read(transfer, wanted)
        self._link.throttle(sum(map(len, contents)), began)
        return contents
