"""Limits on pending events, per client and in total."""

from __future__ import annotations

from app.ground.limits import Limits
from app.transport.outbox import Outbox


class Client:
    """Pending events of a connected client. On the hub thread only."""

    def __init__(self, outbox: Outbox, group: set[Client] | None = None) -> None:
        self.outbox = outbox
        self.is_guest = group is not None
        self.group = {self} if group is None else group  # clients of one guest, which share limits
        self.group.add(self)
        self.events = 0  # number of pending events
        self.bytes = 0  # size of pending events
        self.answer_bytes = 0  # maximum size of pending answers
        self.busy_answers = 0  # refusals since the last accepted event


class PendingEvents:
    """Accounting of pending events. On the hub thread only."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._events = self._bytes = 0  # of all clients

    def accept(self, client: Client, size: int, answer_bytes: int = 0) -> str | None:
        """Accept an event of `size` bytes, or return why it is refused. Too many refusals disconnect the client.

        Args:
            answer_bytes: maximum size of the answer. A guest's answers count as unread as soon as their events are
                accepted, since many events may be accepted before the first is answered.
        """
        if reason := self._refusal(client, size):
            client.busy_answers += 1
            if client.busy_answers > self._limits.busy_answers:
                client.outbox.give_up()
            return reason
        client.busy_answers = 0
        self._count(client, 1, size)
        client.answer_bytes += answer_bytes
        return None

    def done(self, client: Client, size: int, answer_bytes: int = 0) -> None:
        """Record that an accepted event was answered."""
        self._count(client, -1, -size)
        client.answer_bytes -= answer_bytes

    def _refusal(self, client: Client, size: int) -> str | None:
        limits = self._limits
        expected = client.is_guest * sum(one.answer_bytes for one in client.group)
        if self._unread(client) + expected > limits.busy_bytes:
            for one in client.group - {client}:
                if one.outbox.is_abandoned:
                    one.outbox.give_up()
        if self._unread(client) + expected > limits.busy_bytes:
            return "this client has too many unread answers; read them before sending further events"
        events, num_bytes = sum(one.events for one in client.group), sum(one.bytes for one in client.group)
        if events >= limits.events or num_bytes + size > limits.event_bytes:
            return f"{events} events of this client are pending; wait for their answers"
        if self._events >= limits.all_events or self._bytes + size > limits.all_event_bytes:
            return "the server has too many pending events; try again in a moment"
        return None

    @staticmethod
    def _unread(client: Client) -> int:
        return sum(one.outbox.size for one in client.group)

    def _count(self, client: Client, events: int, size: int) -> None:
        client.events += events
        client.bytes += size
        self._events += events
        self._bytes += size
