"""Reports about a file of requests that grows, as `kvtheater proxy` writes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Report(NamedTuple):
    """Page about the file, or why there is none. `size`: of the file, in bytes; `mark`: differs where the text does."""

    size: int
    text: str
    is_page: bool

    @property
    def mark(self) -> str:
        return f"{self.size}-{self.is_page:d}"


class Traffic:
    """Newest report by its query. While a file grows, reports are made at most half of the time."""

    def __init__(self, path: Path, make: Callable[[Path, tuple[str, ...]], tuple[str, bool]]) -> None:
        """`make`: returns the report about a file for some options, and whether it is a page; it may take seconds."""
        self.path, self._make = path, make
        self._making = threading.Lock()
        self._found: dict[tuple[str, ...], Report] = {}
        self._next = 0.0  # time before which no report is made

    def report(self, options: tuple[str, ...]) -> Report | None:
        """Return the newest report; an older one while another is made; None: the file has nothing yet."""
        found, size = self._found.get(options), self._size()
        if size == 0:
            return None
        is_current = found is not None and found.size == size
        if is_current or (found is not None and time.monotonic() < self._next):
            return found
        if not self._making.acquire(blocking=found is None):  # another one is being made
            return found
        try:
            began = time.monotonic()
            found = self._found[options] = Report(size, *self._make(self.path, options))
            self._next = 2 * time.monotonic() - began
        finally:
            self._making.release()
        return found

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0
