"""A lock that is handed on in the order in which it was asked for."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class Turns:
    """Theaters that run at once take turns, one step each.

    A step uses every core it is given, so two at a time would be slower for both and make the recorded times mean
    nothing. A plain lock would let one that runs at full speed take it again and again while the others starve.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            my_turn = threading.Event()
            self._waiting.append(my_turn)
        my_turn.wait()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()  # stays taken: handed on directly
            else:
                self._taken = False
