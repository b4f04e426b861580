"""Limits on unanswered events, for each client and for all together."""

from __future__ import annotations

from app.ground.limits import Limits
from app.transport.outbox import Outbox


class Client:
    """Work in progress of a connected client. On the hub thread only."""

    def __init__(self, outbox: Outbox, group: set[Client] | None = None) -> None:
        self.outbox = outbox
        self.is_guest = group is not None
        self.group = {self} if group is None else group  # of one guest: unread answers count together
        self.group.add(self)
        self.events = 0
        self.bytes = 0
        self.answer_bytes = 0  # that answers under way may have
        self.busy_answers = 0  # since an event was last taken


class Intake:
    """Accounting of pending events. On the hub thread only."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._events = self._bytes = 0  # of all

    def take(self, client: Client, size: int, answer_bytes: int = 0) -> str | None:
        """Accept an event of so many bytes; else return why it is refused now. A client that repeats it is
        disconnected.

        Args:
            answer_bytes: that its answer may have. Of a guest they count as unread from now on: many events are taken
                before the first of them is answered.
        """
        if why := self._too_much(client, size):
            client.busy_answers += 1
            if client.busy_answers > self._limits.busy_answers:
                client.outbox.give_up()
            return why
        client.busy_answers = 0
        self._count(client, 1, size)
        client.answer_bytes += answer_bytes
        return None

    def done(self, client: Client, size: int, answer_bytes: int = 0) -> None:
        """Note that an accepted event is answered."""
        self._count(client, -1, -size)
        client.answer_bytes -= answer_bytes

    def _too_much(self, client: Client, size: int) -> str | None:
        limits = self._limits
        expected = client.is_guest * sum(one.answer_bytes for one in client.group)
        if self._unread(client) + expected > limits.busy_bytes:
            for one in client.group - {client}:
                if one.outbox.is_abandoned:
                    one.outbox.give_up()
        if self._unread(client) + expected > limits.busy_bytes:
            return "answers are waiting to be read by this client; ask again when it has read them"
        events, num_bytes = sum(one.events for one in client.group), sum(one.bytes for one in client.group)
        if events >= limits.events or num_bytes + size > limits.event_bytes:
            return f"{events} events of this client are under way; wait for their answers"
        if self._events >= limits.all_events or self._bytes + size > limits.all_event_bytes:
            return "the server has too much under way; try again in a moment"
        return None

    @staticmethod
    def _unread(client: Client) -> int:
        return sum(one.outbox.size for one in client.group)

    def _count(self, client: Client, events: int, size: int) -> None:
        client.events += events
        client.bytes += size
        self._events += events
        self._bytes += size
