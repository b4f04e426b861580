"""Fair lock for engine steps, granted in the order of requests. All labs of a class share one place in that order."""

from __future__ import annotations

import threading
import time
from collections import deque

# Maximum share of wall time for all labs while other sessions compute. Their steps take 1 / (1 - 1/6) = 1.2 times as
# long.
LABS_SHARE = 1 / 6
RECENT = 2.0  # seconds after a turn for which a session counts as computing; a class steps twice a second


class FairLock:
    """First-in, first-out lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_held = False
        self._waiting: deque[threading.Event] = deque()

    @property
    def waiting(self) -> int:
        """Number of waiting threads."""
        return len(self._waiting)

    def acquire(self, wait: float | None = None) -> bool:
        """Acquire the lock in order of arrival. Returns False after `wait` seconds (None: no limit)."""
        with self._lock:
            if not self._is_held:
                self._is_held = True
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

    def release(self) -> None:
        """Release the lock to the longest waiting thread."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()  # remains held, by the next thread
            else:
                self._is_held = False


class EngineLock(FairLock):
    """Lock for engine steps: concurrent sessions take turns, one step each.

    A step uses all cores, so two concurrent steps would slow each other down and make the recorded times meaningless.
    With an unfair lock, a session at full speed could reacquire it repeatedly and starve the others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.building = threading.Lock()  # held while an engine is built; other sessions step meanwhile
        self._last = -RECENT  # time of the last acquire or release by a session other than a lab
        self.labs = LabLock(self)

    def __enter__(self) -> None:
        self._last = time.monotonic()
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self._last = time.monotonic()
        self.release()

    @property
    def is_busy(self) -> bool:
        """Whether a session other than a lab has computed within the last RECENT seconds."""
        return time.monotonic() - self._last < RECENT


class LabLock:
    """Lock for the steps of labs, which queue among themselves. Only the first of them queues for the engine lock.

    A class's step therefore waits for at most one lab's step, however many labs there are. A pause after each lab's
    step limits all labs together to `LABS_SHARE` of the time while other sessions compute.
    """

    def __init__(self, engine_lock: EngineLock) -> None:
        self.building = engine_lock.building
        self._engine_lock = engine_lock
        self._labs = FairLock()
        self._step_began = self._next_step_at = 0.0

    def __enter__(self) -> None:
        self._labs.acquire()
        pause = self._next_step_at - time.monotonic()
        if pause > 0 and self._engine_lock.is_busy:
            time.sleep(pause)
        self._engine_lock.acquire()
        self._step_began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        now = time.monotonic()
        self._next_step_at = now + (now - self._step_began) * (1 / LABS_SHARE - 1)
        self._engine_lock.release()
        self._labs.release()
