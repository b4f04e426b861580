"""Fair lock, granted in the order of requests. The labs of a class share one place in that order."""

from __future__ import annotations

import threading
import time
from collections import deque

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
    """Lock for engine steps: concurrent sessions take turns, one step each.

    A step uses all cores, so two concurrent steps would slow each other down and make the recorded times meaningless.
    With a plain lock, a session at full speed would take it again and again while the others starve.
    """

    def __init__(self) -> None:
        super().__init__()
        self.building = threading.Lock()  # held while an engine is built; others step meanwhile
        self._last = -RECENT  # when a thread other than a lab's last requested or released a turn
        self.labs = LabLock(self)

    def __enter__(self) -> None:
        self._last = time.monotonic()
        self.take()

    def __exit__(self, *_: object) -> None:
        self._last = time.monotonic()
        self.leave()

    @property
    def at_work(self) -> bool:
        """Whether a thread other than a lab's is computing, or was within the last RECENT seconds."""
        return time.monotonic() - self._last < RECENT


class LabLock:
    """Turns of labs: they queue among themselves, and only the first of them queues for the engine lock.

    So a class's step waits for at most one lab's step, however many labs there are. A pause after each lab's turn
    limits all labs together to `LABS_SHARE` of the time while others compute.
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

    def __exit__(self, *_: object) -> None:
        now = time.monotonic()
        self._next = now + (now - self._began) * (1 / LABS_SHARE - 1)
        self._turns.leave()
        self._line.leave()
