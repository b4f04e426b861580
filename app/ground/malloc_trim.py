"""Return of memory to the system after bursts of requests."""

from __future__ import annotations

import threading

from engine.model.freed_memory import trim_memory

MIN_BYTES = 64 * 1024 * 1024  # freed since the last trim
DELAY_SECONDS = 2.0  # after a burst has ended, trimming takes less time


class Trimmer:
    """Calls malloc_trim on a separate thread, DELAY_SECONDS after much memory was freed. Thread-safe."""

    def __init__(self) -> None:
        self._freed = 0
        self._is_due = False
        self._lock = threading.Lock()

    def freed(self, num_bytes: int) -> None:
        """Count memory that has been or will soon be freed."""
        with self._lock:
            self._freed += num_bytes
            if self._freed < MIN_BYTES or self._is_due:
                return
            self._is_due = True
        timer = threading.Timer(DELAY_SECONDS, self._trim)
        timer.daemon = True
        timer.start()

    def _trim(self) -> None:
        with self._lock:
            self._freed, self._is_due = 0, False
        trim_memory()


TRIM = Trimmer()  # of this process
