"""A lock that is granted in the order of the requests for it."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class Turns:
    """Theaters that run at once take turns, one step each.

    A step uses all cores, so two steps at once would slow each other down and make the recorded times meaningless. With
    a plain lock, a theater at full speed would take it again and again while the others starve.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Event] = deque()

    def take(self, wait: float | None = None) -> bool:
        """Take the next turn, to be given on by `leave`. False: it did not come in `wait` seconds (None: it will)."""
        with self._lock:
            if not self._taken:
                self._taken = True
                return True
            my_turn = threading.Event()
            self._waiting.append(my_turn)
        if my_turn.wait(wait):
            return True
        with self._lock:
            if my_turn.is_set():  # handed on in the last moment
                return True
            self._waiting.remove(my_turn)
            return False

    def leave(self) -> None:
        """Give the turn on to who has waited longest."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()  # stays taken: handed on directly
            else:
                self._taken = False

    def __enter__(self) -> None:
        self.take()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
