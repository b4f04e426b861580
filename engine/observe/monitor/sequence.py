"""Sequencing of a publisher's messages: gaps, duplicates, replays that overlap with live messages, restarts.

No sockets and no clock: messages and replies in, actions out. A publisher numbers its messages from 0 and buffers the
last ones for replay. After a reconnection or a gap the last known message is requested again: if it differs, the
publisher has restarted in between.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from engine.trace.operations import KnownReason

MAX_PENDING = 100_000  # messages waiting for earlier ones; beyond, the gap counts as lost
MAX_PENDING_BYTES = 256 * 1024 * 1024
REMEMBERED = 4096  # checksums of processed messages, to distinguish duplicates from a restart


@dataclass(frozen=True, slots=True)
class Message:
    """Next message in order."""

    sequence: int
    payload: bytes
    replayed: bool


@dataclass(frozen=True, slots=True)
class Break:
    """Break in a publisher's sequence of messages."""

    reason: KnownReason
    sequence: int  # of the next message
    num_missed: int = 0


SequenceEvent = Message | Break


class Sequence:
    """Message sequence of a publisher. `ask`: the number from which to request a replay, or None.

    Set `ask` to None when the request is sent; end the replay with `answered`, or without a reply `unanswered`.
    """

    def __init__(self, can_replay: bool) -> None:
        self._can_replay = can_replay
        self._next: int | None = None  # next expected number; None: no message so far
        self._reason: KnownReason = "attached"  # reason of the next break
        self._is_replaying = False
        self._is_unsure = False  # after a lost connection: the publisher may have restarted
        self._pending: dict[int, bytes] = {}  # live messages waiting for earlier ones
        self._pending_bytes = 0
        self._answers: dict[int, bytes] = {}
        self._answer_bytes = 0
        self._left_out = False  # whether replayed messages were dropped for the bounds
        self._taken: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        self._checks: dict[int, int] = {}
        self._last_live: tuple[int, int] | None = None
        self.ask: int | None = None
        if can_replay:
            self._request_replay(0)

    @property
    def next(self) -> int | None:
        """Next expected number."""
        return self._next

    @property
    def is_replaying(self) -> bool:
        """Whether a replay is pending or running."""
        return self._is_replaying

    def live(self, sequence: int, payload: bytes) -> Iterator[SequenceEvent]:
        """Handle a live message."""
        check = zlib.crc32(payload)
        before, self._last_live = self._last_live, (sequence, check)
        if before is not None and sequence <= before[0]:
            if before == (sequence, check) or self._was_taken(sequence, check):
                self._last_live = max(before, (sequence, check))
                return
            self._restart()  # numbers only rise until a restart
        if self._is_replaying:
            self._wait(sequence, payload)
            return
        if self._next is None:
            if sequence > 0 and self._can_replay:  # earlier messages were published before the subscription
                self._wait(sequence, payload)
                self._request_replay(0)
                return
            yield Break(self._reason, sequence)
            self._next = sequence
        if sequence < self._next:
            if not self._was_taken(sequence, check):
                self._restart()
                if self._is_replaying:
                    self._wait(sequence, payload)
                else:
                    yield from self.live(sequence, payload)
            return
        if sequence == self._next and not self._is_unsure:
            yield self._take(sequence, payload, False)
            return
        self._wait(sequence, payload)
        if self._can_replay:
            self._request_replay(max(0, self._next - 1))
        else:
            yield from self._settle()

    def answer(self, sequence: int, payload: bytes) -> None:
        """Read a replayed message. Messages over the bounds are requested again after the others are processed."""
        fits = len(self._answers) < MAX_PENDING and self._answer_bytes + len(payload) <= MAX_PENDING_BYTES
        if self._is_replaying and (fits or not self._answers):
            self._answers[sequence] = payload
            self._answer_bytes += len(payload)
        elif self._is_replaying:
            self._left_out = True

    def answered(self) -> Iterator[SequenceEvent]:
        """Handle the end of a replay."""
        if not self._is_replaying:
            return
        self._is_replaying = False
        if self._next is not None and self._next > 0:
            last = self._answers.get(self._next - 1)
            known = self._checks.get(self._next - 1)
            is_other = last is not None and known is not None and zlib.crc32(last) != known
            if is_other or (not self._answers and not self._pending and self._is_unsure):
                self._restart()
                return
        before, left_out = self._next, self._left_out
        yield from self._settle(may_ask=True)
        if (self._pending or left_out) and not self._is_replaying and self._next != before:
            self._request_replay(max(0, (self._next or 1) - 1))

    def unanswered(self) -> Iterator[SequenceEvent]:
        """Handle a replay without a (further) reply: received messages count, the rest is missing."""
        if self._is_replaying:
            self._is_replaying = False
            yield from self._settle()

    def disconnected(self) -> None:
        """Handle a lost connection: messages may be lost, and the publisher may restart.

        Pending and replayed messages are dropped: they may come from before the restart.
        """
        self._is_unsure = self._next is not None
        self._pending, self._pending_bytes, self._last_live = {}, 0, None
        if self._is_replaying:
            self._request_replay(max(0, (self._next or 1) - 1))

    def reconnected(self) -> None:
        """Handle a reconnection: request the missed messages at once."""
        if self._is_unsure and self._can_replay and not self._is_replaying:
            self._request_replay(max(0, (self._next or 1) - 1))

    def _settle(self, may_ask: bool = False) -> Iterator[SequenceEvent]:
        """Process available messages in order. `may_ask`: messages dropped from a replay may be requested again."""
        have = {**{n: (p, True) for n, p in self._answers.items()}, **{n: (p, False) for n, p in self._pending.items()}}
        lowest = min(have, default=None)
        self._answers = {}
        if lowest is None:
            return
        if self._next is not None and lowest < self._next and not self._is_known(lowest, have[lowest][0]):
            self._restart()
            self._is_replaying, self.ask = False, None  # all messages since the restart are available
        if self._next is None:
            yield Break(self._reason, lowest)
            self._next = lowest
        took = False
        for sequence in sorted(have):
            payload, replayed = have[sequence]
            if sequence < self._next:
                self._drop(sequence)
                continue
            if sequence > self._next or (self._is_unsure and not took and not self._knows_before(have)):
                if may_ask and took:  # a part was processed, so the rest may fit now
                    return
                yield Break("gap", sequence, sequence - self._next)
                self._next = sequence
            self._drop(sequence)
            self._is_unsure = False
            took = True
            yield self._take(sequence, payload, replayed)

    def _knows_before(self, have: dict[int, tuple[bytes, bool]]) -> bool:
        """Return whether the last processed message was replayed and is the same."""
        before = (self._next or 0) - 1
        return before < 0 or (before in have and zlib.crc32(have[before][0]) == self._checks.get(before))

    def _is_known(self, sequence: int, payload: bytes) -> bool:
        """Return whether a processed message had this number and payload."""
        return self._checks.get(sequence) == zlib.crc32(payload)

    def _take(self, sequence: int, payload: bytes, replayed: bool) -> Message:
        self._next = sequence + 1
        if len(self._taken) == REMEMBERED:
            self._checks.pop(self._taken[0][0], None)
        check = zlib.crc32(payload)
        self._taken.append((sequence, check))
        self._checks[sequence] = check
        return Message(sequence, payload, replayed)

    def _was_taken(self, sequence: int, check: int) -> bool:
        pending = self._pending.get(sequence)
        return self._checks.get(sequence) == check or (pending is not None and zlib.crc32(pending) == check)

    def _wait(self, sequence: int, payload: bytes) -> None:
        self._pending_bytes += len(payload) - len(self._pending.get(sequence, b""))
        self._pending[sequence] = payload
        while len(self._pending) > MAX_PENDING or self._pending_bytes > MAX_PENDING_BYTES:
            self._drop(next(iter(self._pending)))

    def _drop(self, sequence: int) -> None:
        payload = self._pending.pop(sequence, None)
        if payload is not None:
            self._pending_bytes -= len(payload)

    def _request_replay(self, first: int) -> None:
        self._is_replaying, self.ask = True, first
        self._answers, self._answer_bytes, self._left_out = {}, 0, False

    def _restart(self) -> None:
        """Handle a restart of the publisher: drop all messages from before."""
        self._next, self._reason, self._is_unsure = None, "restarted", False
        self._pending, self._pending_bytes = {}, 0
        self._checks.clear()
        self._taken.clear()
        self._is_replaying, self._answers = False, {}
        if self._can_replay:
            self._request_replay(0)
