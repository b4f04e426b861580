"""Return of memory to the system after bursts of requests."""

from __future__ import annotations

import threading

from engine.model.freed_memory import trim_memory

EVERY_BYTES = 64 * 1024 * 1024  # freed since the last time
AFTER_SECONDS = 2.0  # so that a burst is over, and trimming takes little time


class Trimming:
    """Calls malloc_trim on a separate thread, some time after much memory was freed. Thread-safe."""

    def __init__(self) -> None:
        self._freed = 0
        self._is_due = False
        self._lock = threading.Lock()

    def freed(self, num_bytes: int) -> None:
        """Count memory that is freed now or soon."""
        with self._lock:
            self._freed += num_bytes
            if self._freed < EVERY_BYTES or self._is_due:
                return
            self._is_due = True
        timer = threading.Timer(AFTER_SECONDS, self._trim)
        timer.daemon = True
        timer.start()

    def _trim(self) -> None:
        with self._lock:
            self._freed, self._is_due = 0, False
        trim_memory()


TRIM = Trimming()  # of this process
