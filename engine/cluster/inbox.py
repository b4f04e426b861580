"""Inbox of an instance process: messages and finished transfers."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

from engine.cluster.messages import End, ToInstance, Turn
from engine.connector.peer import Peer, PeerGoneError

LOOK = 1.0  # seconds after which it is looked whether the parent still lives


class Bell:
    """Wakeup for a waiting thread. May be used from any thread."""

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
        """Wait until there are more than `num_changes` wake-ups, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._num_changes != num_changes, seconds)


class Inbox:
    """A thread receives, so that the cluster never waits for room, and its end is noticed in the midst of a step."""

    def __init__(self, peer: Peer[ToInstance], orphaned: Callable[[], object]) -> None:
        """`orphaned`: called on the thread when the cluster is gone."""
        self._peer, self._orphaned = peer, orphaned
        self._parent = os.getppid()
        self._messages, self._turns = deque[ToInstance](), deque[Turn]()
        self.bell = Bell()  # also when a message comes
        threading.Thread(target=self._receive, name="inbox", daemon=True).start()

    def next(self) -> ToInstance:
        """Wait for the next message. Turns come last: they are requested ahead, and messages received meanwhile apply
        to the next one.
        """
        while True:
            changes = self.bell.num_changes
            if waiting := self._messages or self._turns:
                return waiting.popleft()
            self.bell.wait(changes)

    def _receive(self) -> None:
        while True:
            try:
                message = self._peer.receive(LOOK)
            except TimeoutError:
                if os.getppid() == self._parent:
                    continue
                break
            except PeerGoneError:
                break
            if isinstance(message, Turn):
                self._turns.append(message)
            else:
                if isinstance(message, End):  # what comes after it is for another instance
                    self._turns.clear()
                self._messages.append(message)
            self.bell.wake()
        self._orphaned()
