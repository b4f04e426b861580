"""Reports about a growing file of requests, as written by `kvtheater proxy`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Report(NamedTuple):
    """Page about the file, or an error message. `size`: size of the file in bytes when the report was built."""

    size: int
    text: str
    is_page: bool

    @property
    def etag(self) -> str:
        return f"{self.size}-{self.is_page:d}"


class Traffic:
    """Newest reports by their options. Building reports takes at most half of wall time."""

    def __init__(self, path: Path, build: Callable[[Path, tuple[str, ...]], tuple[str, bool]]) -> None:
        """`build` returns the report about a file for some options, and whether it is a page. It may take seconds."""
        self.path, self._build = path, build
        self._building = threading.Lock()
        self._reports: dict[tuple[str, ...], Report] = {}
        self._next_at = 0.0  # time before which no report is built

    def report(self, options: tuple[str, ...]) -> Report | None:
        """Return the newest report, or an older one while another is being built. None if the file is empty."""
        found, size = self._reports.get(options), self._size()
        if size == 0:
            return None
        is_current = found is not None and found.size == size
        if is_current or (found is not None and time.monotonic() < self._next_at):
            return found
        if not self._building.acquire(blocking=found is None):  # a report is being built
            return found
        try:
            began = time.monotonic()
            found = self._reports[options] = Report(size, *self._build(self.path, options))
            self._next_at = 2 * time.monotonic() - began
        finally:
            self._building.release()
        return found

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0
