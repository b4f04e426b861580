"""Links that move keys and values between instances: one reads blocks that another one holds for it.

The decode instance pulls, as NIXL does in vLLM; the prefill instance only holds the blocks. Blocks belong to the sender
until the receiver has confirmed them.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

from engine.trace.operations import TransferFault

MAX_READ_SECONDS = 60.0  # of one read on a slow link


class TransferError(RuntimeError):
    """A transfer failed. `reason`: as in the trace."""

    def __init__(self, reason: TransferFault, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: TransferFault = reason
        self.detail = detail


class RemoteBlocks(NamedTuple):
    """Blocks that an instance holds for another one: the result of a prompt's prefill."""

    engine_id: str  # their instance
    transfer: str
    layout: bytes  # what their numbers mean (`engine.connector.layout`)
    num_tokens: int  # computed
    text: bytes  # which tokens these are (`text_of`)
    block_tables: list[list[int]]  # of each group of layers; RELEASED where a block is gone


def text_of(token_ids: Sequence[int], cache_salt: str | None) -> bytes:
    """Return a digest of leading tokens and their salt, which identifies their keys and values."""
    salt = b"" if cache_salt is None else b"\x01" + cache_salt.encode()
    body = struct.pack(f"<Q{len(token_ids)}q", len(token_ids), *token_ids)
    return blake2b(body + salt, digest_size=16, person=b"kvt-transfer").digest()


class Sender(Protocol):
    """Remote side of a link, which holds blocks."""

    def read(self, transfer: str, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the content of blocks (group, block id) of that transfer.

        Raises:
            TransferError: unknown, consumed, expired, stale or out_of_range.
        """

    def renew(self, transfer: str) -> None:
        """Renew the lease of blocks that the receiver still needs."""

    def received(self, transfer: str, wanted: Sequence[tuple[int, int]], num_bytes: int) -> None:
        """Confirm that the receiver has the wanted blocks; the sender may free them."""


class Link(Protocol):
    """Link to other instances, by engine id."""

    @property
    def name(self) -> str:
        """Name in the trace."""

    def to(self, engine_id: str) -> Sender:
        """Return the sender.

        Raises:
            TransferError: `gone`.
        """


class LocalLink:
    """Link between engines of one process; a read is a copy in memory."""

    name = "local"

    def __init__(self, senders: Mapping[str, Sender]) -> None:
        self._senders = senders

    def to(self, engine_id: str) -> Sender:
        sender = self._senders.get(engine_id)
        if sender is None:
            raise TransferError("gone", f"there is no instance {engine_id}")
        return sender


class ThrottledLink:
    """Wrapper that limits a link to so many bytes per second; its name states the limit wherever it is shown.

    A read waits for at most MAX_READ_SECONDS, after which its receiver has given up. `close` ends every wait.
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
        """End the reads that wait."""
        self._closed.set()

    def pass_over(self, num_bytes: int, began: float) -> None:
        """Wait until so many bytes have passed the link since `began`.

        Raises:
            TransferError: `late` or `gone`.
        """
        seconds = num_bytes / self._rate
        self._sleep(max(0.0, min(seconds, MAX_READ_SECONDS) - (self._clock() - began)))
        if self._closed.is_set():
            raise TransferError("gone", "the run is over")
        if seconds > MAX_READ_SECONDS:
            what = f"{num_bytes} bytes need {seconds:.3g} s on this link"
            raise TransferError("late", f"{what}; a transfer has {MAX_READ_SECONDS:g} s")


class _Throttled:
    def __init__(self, sender: Sender, link: ThrottledLink) -> None:
        self._sender, self._throttle = sender, link
        self.renew, self.received = sender.renew, sender.received

    def read(self, transfer: str, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        began = self._throttle._clock()
        contents = self._sender.read(transfer, wanted)
        self._throttle.pass_over(sum(map(len, contents)), began)
        return contents
