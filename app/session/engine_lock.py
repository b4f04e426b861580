"""A lock that is granted in the order of the requests for it; labs of a class stand in one line of their own for it."""

from __future__ import annotations

import threading
import time
from collections import deque
from types import TracebackType

LABS_SHARE = 1 / 6  # of the time, while others compute too: what takes these 1 / (1 - 1/6) = 1.2 times as long
RECENT = 2.0  # seconds after a turn for which others count as computing; a class steps twice a second


class Line:
    """First come, first served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Event] = deque()

    @property
    def waiting(self) -> int:
        """Number of waiting threads."""
        return len(self._waiting)

    def take(self, wait: float | None = None) -> bool:
        """Acquire the lock in order of arrival, until `leave`. Returns False after `wait` seconds (None: no limit)."""
        with self._lock:
            if not self._taken:
                self._taken = True
                return True
            my_turn = threading.Event()
            self._waiting.append(my_turn)
        if my_turn.wait(wait):
            return True
        with self._lock:
            if my_turn.is_set():  # acquired at the last moment
                return True
            self._waiting.remove(my_turn)
            return False

    def leave(self) -> None:
        """Pass the turn to the longest waiting thread."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()  # stays taken: handed on directly
            else:
                self._taken = False


class EngineLock(Line):
    """Theaters that run at once take turns, one step each.

    A step uses all cores, so two steps at once would slow each other down and make the recorded times meaningless. With
    a plain lock, a session at full speed would take it again and again while the others starve.
    """

    def __init__(self) -> None:
        super().__init__()
        self.building = threading.Lock()  # held while an engine is built; others step meanwhile
        self._last = -RECENT  # when a thread other than a lab's last requested or released a turn
        self.labs = LabLock(self)

    def __enter__(self) -> None:
        self._last = time.monotonic()
        self.take()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._last = time.monotonic()
        self.leave()

    @property
    def at_work(self) -> bool:
        """Whether a thread other than a lab's is computing, or was within the last RECENT seconds."""
        return time.monotonic() - self._last < RECENT


class LabLock:
    """The turns of labs: they stand in a line of their own, and its first one alone stands in everybody's.

    So a class's step waits for one lab's at most, however many there are and however fast they run; and after a lab's
    turn there is a pause that leaves labs together no more than `LABS_SHARE` of the time, while others compute too.
    """

    def __init__(self, turns: EngineLock) -> None:
        self.building = turns.building
        self._turns = turns
        self._line = Line()
        self._began = self._next = 0.0  # of the current turn; when labs may continue

    def __enter__(self) -> None:
        self._line.take()
        pause = self._next - time.monotonic()
        if pause > 0 and self._turns.at_work:
            time.sleep(pause)
        self._turns.take()
        self._began = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = time.monotonic()
        self._next = now + (now - self._began) * (1 / LABS_SHARE - 1)
        self._turns.leave()
        self._line.leave()
