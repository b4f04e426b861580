"""Orders a publisher's messages: detects gaps, duplicates, restarts, and replays that overlap with live messages.

This state machine uses no sockets and no clock. A publisher numbers its messages from 0 and buffers the last ones for
replay. After a reconnection or a gap, a replay is requested from the last processed message on; if that message
differs, the publisher has restarted.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from engine.trace.operations import KnownReason

MAX_PENDING = 100_000  # messages that wait for earlier ones; beyond this, the oldest is dropped
MAX_PENDING_BYTES = 256 * 1024 * 1024
MAX_CHECKSUMS = 4096  # of the last processed messages, to distinguish duplicates from a restart


@dataclass(frozen=True, slots=True)
class Message:
    """Next message in order."""

    sequence: int
    payload: bytes
    replayed: bool


@dataclass(frozen=True, slots=True)
class Break:
    """Interruption of the sequence: messages are missing, or the publisher restarted."""

    reason: KnownReason
    sequence: int  # number of the next message
    num_missed: int = 0


SequenceEvent = Message | Break


class Sequence:
    """Message sequence of a publisher.

    `replay_from`: number from which the caller must request a replay, or None; the caller resets it when the request is
    sent. The caller ends the replay with `end_replay`, or with `abort_replay` if replies are missing.
    """

    def __init__(self, can_replay: bool) -> None:
        self._can_replay = can_replay
        self._next: int | None = None  # expected number of the next message; None: no message yet
        self._reason: KnownReason = "attached"  # reason of the next break
        self._is_replaying = False
        self._may_have_restarted = False  # set when the connection is lost
        self._pending: dict[int, bytes] = {}  # live messages that wait for earlier ones
        self._pending_bytes = 0
        self._replayed: dict[int, bytes] = {}
        self._replayed_bytes = 0
        self._has_dropped = False  # whether replayed messages were dropped because of the limits
        self._processed: deque[tuple[int, int]] = deque(maxlen=MAX_CHECKSUMS)
        self._checks: dict[int, int] = {}
        self._last_live: tuple[int, int] | None = None
        self.replay_from: int | None = None
        if can_replay:
            self._request_replay(0)

    @property
    def next(self) -> int | None:
        """Expected number of the next message, or None."""
        return self._next

    @property
    def is_replaying(self) -> bool:
        return self._is_replaying

    def live(self, sequence: int, payload: bytes) -> Iterator[SequenceEvent]:
        check = zlib.crc32(payload)
        before, self._last_live = self._last_live, (sequence, check)
        if before is not None and sequence <= before[0]:
            if before == (sequence, check) or self._was_received(sequence, check):
                self._last_live = max(before, (sequence, check))
                return
            self._restart()  # numbers decrease only after a restart
        if self._is_replaying:
            self._enqueue(sequence, payload)
            return
        if self._next is None:
            if sequence > 0 and self._can_replay:  # earlier messages were published before the subscription began
                self._enqueue(sequence, payload)
                self._request_replay(0)
                return
            yield Break(self._reason, sequence)
            self._next = sequence
        if sequence < self._next:
            if not self._was_received(sequence, check):
                self._restart()
                if self._is_replaying:
                    self._enqueue(sequence, payload)
                else:
                    yield from self.live(sequence, payload)
            return
        if sequence == self._next and not self._may_have_restarted:
            yield self._process(sequence, payload, False)
            return
        self._enqueue(sequence, payload)
        if self._can_replay:
            self._request_replay(max(0, self._next - 1))
        else:
            yield from self._process_available()

    def add_replayed(self, sequence: int, payload: bytes) -> None:
        """Add a replayed message. Messages beyond the limits are dropped and requested again later."""
        fits = len(self._replayed) < MAX_PENDING and self._replayed_bytes + len(payload) <= MAX_PENDING_BYTES
        if self._is_replaying and (fits or not self._replayed):
            self._replayed[sequence] = payload
            self._replayed_bytes += len(payload)
        elif self._is_replaying:
            self._has_dropped = True

    def end_replay(self) -> Iterator[SequenceEvent]:
        """Handle the end of a replay."""
        if not self._is_replaying:
            return
        self._is_replaying = False
        if self._next is not None and self._next > 0:
            last = self._replayed.get(self._next - 1)
            known = self._checks.get(self._next - 1)
            is_other = last is not None and known is not None and zlib.crc32(last) != known
            if is_other or (not self._replayed and not self._pending and self._may_have_restarted):
                self._restart()
                return
        before, has_dropped = self._next, self._has_dropped
        yield from self._process_available(may_request=True)
        if (self._pending or has_dropped) and not self._is_replaying and self._next != before:
            self._request_replay(max(0, (self._next or 1) - 1))

    def abort_replay(self) -> Iterator[SequenceEvent]:
        """End a replay whose remaining replies are missing. Processes the received messages."""
        if self._is_replaying:
            self._is_replaying = False
            yield from self._process_available()

    def disconnected(self) -> None:
        """Handle a lost connection: messages may be lost, and the publisher may restart.

        Drops pending and replayed messages, because they may be older than the restart.
        """
        self._may_have_restarted = self._next is not None
        self._pending, self._pending_bytes, self._last_live = {}, 0, None
        if self._is_replaying:
            self._request_replay(max(0, (self._next or 1) - 1))

    def reconnected(self) -> None:
        """Handle a reconnection: request the missed messages."""
        if self._may_have_restarted and self._can_replay and not self._is_replaying:
            self._request_replay(max(0, (self._next or 1) - 1))

    def _process_available(self, may_request: bool = False) -> Iterator[SequenceEvent]:
        """Process available messages in order. `may_request`: dropped messages may be requested again."""
        available = {
            **{n: (p, True) for n, p in self._replayed.items()},
            **{n: (p, False) for n, p in self._pending.items()},
        }
        lowest = min(available, default=None)
        self._replayed = {}
        if lowest is None:
            return
        if self._next is not None and lowest < self._next and not self._is_known(lowest, available[lowest][0]):
            self._restart()
            self._is_replaying, self.replay_from = False, None  # all messages since the restart are available
        if self._next is None:
            yield Break(self._reason, lowest)
            self._next = lowest
        has_processed = False
        for sequence in sorted(available):
            payload, replayed = available[sequence]
            if sequence < self._next:
                self._drop(sequence)
                continue
            if sequence > self._next or (
                self._may_have_restarted and not has_processed and not self._has_predecessor(available)
            ):
                if may_request and has_processed:  # after processing some messages, the others may fit
                    return
                yield Break("gap", sequence, sequence - self._next)
                self._next = sequence
            self._drop(sequence)
            self._may_have_restarted = False
            has_processed = True
            yield self._process(sequence, payload, replayed)

    def _has_predecessor(self, available: dict[int, tuple[bytes, bool]]) -> bool:
        """Return whether the last processed message is available and unchanged, or there is none."""
        before = (self._next or 0) - 1
        return before < 0 or (before in available and zlib.crc32(available[before][0]) == self._checks.get(before))

    def _is_known(self, sequence: int, payload: bytes) -> bool:
        """Return whether a message with this number and payload was processed."""
        return self._checks.get(sequence) == zlib.crc32(payload)

    def _process(self, sequence: int, payload: bytes, replayed: bool) -> Message:
        self._next = sequence + 1
        if len(self._processed) == MAX_CHECKSUMS:
            self._checks.pop(self._processed[0][0], None)
        check = zlib.crc32(payload)
        self._processed.append((sequence, check))
        self._checks[sequence] = check
        return Message(sequence, payload, replayed)

    def _was_received(self, sequence: int, check: int) -> bool:
        pending = self._pending.get(sequence)
        return self._checks.get(sequence) == check or (pending is not None and zlib.crc32(pending) == check)

    def _enqueue(self, sequence: int, payload: bytes) -> None:
        self._pending_bytes += len(payload) - len(self._pending.get(sequence, b""))
        self._pending[sequence] = payload
        while len(self._pending) > MAX_PENDING or self._pending_bytes > MAX_PENDING_BYTES:
            self._drop(next(iter(self._pending)))

    def _drop(self, sequence: int) -> None:
        payload = self._pending.pop(sequence, None)
        if payload is not None:
            self._pending_bytes -= len(payload)

    def _request_replay(self, first: int) -> None:
        self._is_replaying, self.replay_from = True, first
        self._replayed, self._replayed_bytes, self._has_dropped = {}, 0, False

    def _restart(self) -> None:
        """Handle a restart of the publisher: drop all earlier messages."""
        self._next, self._reason, self._may_have_restarted = None, "restarted", False
        self._pending, self._pending_bytes = {}, 0
        self._checks.clear()
        self._processed.clear()
        self._is_replaying, self._replayed = False, {}
        if self._can_replay:
            self._request_replay(0)
