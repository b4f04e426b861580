"""Inbox of an instance process: messages and finished transfers."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

from engine.cluster.messages import End, ToInstance, Turn
from engine.connector.peer import Peer, PeerGoneError

PARENT_CHECK_SECONDS = 1.0  # interval of checks that the parent process is alive


class Notifier:
    """Wakes up waiting threads. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._num_changes = 0

    @property
    def num_changes(self) -> int:
        """Number of wake-ups so far."""
        return self._num_changes

    def wake(self) -> None:
        with self._changed:
            self._num_changes += 1
            self._changed.notify_all()

    def wait(self, num_changes: int, seconds: float | None = None) -> None:
        """Wait until `self.num_changes` differs from `num_changes`, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._num_changes != num_changes, seconds)


class Inbox:
    """Inbox that is filled by a thread.

    The cluster never waits for socket buffer space, and its end is noticed even during a step.
    """

    def __init__(self, peer: Peer[ToInstance], orphaned: Callable[[], object]) -> None:
        """`orphaned`: called on the receiving thread when the cluster is gone."""
        self._peer, self._orphaned = peer, orphaned
        self._parent = os.getppid()
        self._messages, self._turns = deque[ToInstance](), deque[Turn]()
        self.notifier = Notifier()  # notified of each message
        threading.Thread(target=self._receive, name="inbox", daemon=True).start()

    def next(self) -> ToInstance:
        """Wait for the next message.

        Turns are returned last: they are queued in advance, and other messages must apply before the next turn.
        """
        while True:
            changes = self.notifier.num_changes
            if waiting := self._messages or self._turns:
                return waiting.popleft()
            self.notifier.wait(changes)

    def _receive(self) -> None:
        while True:
            try:
                message = self._peer.receive(PARENT_CHECK_SECONDS)
            except TimeoutError:
                if os.getppid() == self._parent:
                    continue
                break
            except PeerGoneError:
                break
            if isinstance(message, Turn):
                self._turns.append(message)
            else:
                if isinstance(message, End):  # later turns are for another instance
                    self._turns.clear()
                self._messages.append(message)
            self.notifier.wake()
        self._orphaned()
