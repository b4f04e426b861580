"""Rows of a library, preserved in memory when its folder or index is lost.

While the index is locked, damaged or missing, the cached rows are shown, and ends of recordings are buffered. A
restored or recreated index gets the rows it lacks.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from app.ground.errors import one_sentence
from app.recordings.index import Index, Row
from app.recordings.repair import Finding, open_index, repair

INDEX_FILE = "index.sqlite"
RETRY_SECONDS = 1.0  # time before a locked index is tried again, so that not every request waits
MAX_FINDINGS = 100  # the latest

Unusable = (sqlite3.Error, OSError)
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
DAMAGED = (0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)
T = TypeVar("T")
logger = logging.getLogger(__name__)


class Rows:
    """Cached rows. Thread-safe.

    Raises (every change):
        sqlite3.Error, OSError: the index cannot be written.
    """

    def __init__(self, folder: Path, now: Callable[[], str]) -> None:
        """Repair folder and index if the folder exists. `now`: returns the time in the rows' format."""
        self._folder, self._now = folder, now
        self._index: Index | None = None
        self._known: dict[str, Row] = {}  # as last read or written, latest first
        self._unsaved: dict[str, Row] = {}  # rows that could not be written
        self._findings: list[Finding] = []
        self._fault: Finding | None = None
        self._error: Exception | None = None  # cause of the current failure
        self._retry_at = 0.0
        self._lock = threading.RLock()
        self.all()

    @property
    def findings(self) -> list[Finding]:
        """Findings: repaired ones, and open ones."""
        return self._findings + ([self._fault] if self._fault else [])

    def all(self) -> list[Row]:
        """Return every row, latest first."""
        with self._lock:
            if self._index is not None or self._folder.is_dir():
                try:
                    self._known = {row.recording_id: row for row in self._use(Index.rows)}
                    self._save()
                except Unusable:
                    pass  # reported by `findings`
            return [self._unsaved.get(row.recording_id, row) for row in self._known.values()]

    def get(self, recording_id: str) -> Row | None:
        """Return the row of a recording."""
        with self._lock:
            known = self._unsaved.get(recording_id) or self._known.get(recording_id)
            if recording_id in self._unsaved or (self._index is None and not self._folder.is_dir()):
                return known
            try:
                return self._use(lambda index: index.row(recording_id))
            except Unusable:
                return known

    def put(self, row: Row, must: bool = True) -> None:
        """Insert or replace a row; without `must` it is buffered while the index cannot be written."""
        with self._lock:
            try:
                self._use(lambda index: index.put(row))
                self._unsaved.pop(row.recording_id, None)
            except Unusable:
                if must:
                    raise
                self._unsaved[row.recording_id] = row
            if row.recording_id in self._known:
                self._known[row.recording_id] = row
            else:
                self._known = {row.recording_id: row, **self._known}

    def remove(self, recording_id: str) -> None:
        """Delete a row."""
        with self._lock:
            self._use(lambda index: index.remove(recording_id))
            self._known.pop(recording_id, None)
            self._unsaved.pop(recording_id, None)

    def place(self) -> None:
        """Create the folder if it is missing, and check the index."""
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._use(Index.rows)

    def close(self) -> None:
        with self._lock:
            self.all()
            if self._index is not None:
                self._index.close()
                self._index = None

    def _save(self) -> None:
        """Write the buffered rows."""
        for row in list(self._unsaved.values()):
            self.put(row, must=False)

    def _use(self, do: Callable[[Index], T]) -> T:
        """Call `do` with a usable index; one that looks damaged is reopened once."""
        if self._error is not None and _code(self._error) in LOCKED and time.monotonic() < self._retry_at:
            raise self._error
        try:
            if self._index is None or not self._index.is_there:
                self._open()
            assert self._index is not None
            try:
                found = do(self._index)
            except sqlite3.Error as error:
                if _code(error) not in DAMAGED:
                    raise
                self._open()
                found = do(self._index)
        except Unusable as error:
            self._failed(error)
            raise
        self._fault = self._error = None
        return found

    def _open(self) -> None:
        """Open the index, add the rows it lacks, and repair folder and index."""
        if self._index is not None:
            self._index.close()
            self._index = None
        if not self._folder.is_dir():
            raise FileNotFoundError(f"there is no folder {self._folder}")
        index, findings = open_index(self._folder / INDEX_FILE)
        try:
            found = {row.recording_id for row in index.rows()}
            lacking = [row for row in self._known.values() if row.recording_id not in found]
            for row in reversed(lacking):  # so that the latest is inserted last
                index.put(row)
            if lacking and not findings:
                message = f"the index had lost {len(lacking)} of its recordings: they were put back"
                findings.append(Finding(kind="index_rebuilt", recording=None, message=message))
            findings += repair(self._folder, index, self._now())
        except BaseException:
            index.close()
            raise
        self._index = index
        for finding in findings:
            logger.warning("%s", finding.message)
        known = {finding.message for finding in self._findings}
        self._findings += [finding for finding in findings if finding.message not in known]
        del self._findings[:-MAX_FINDINGS]

    def _failed(self, error: Exception) -> None:
        if self._folder.is_dir():
            reason = (error.strerror if isinstance(error, OSError) else None) or one_sentence(error)
            message = (
                f"the index of the recordings cannot be used now ({reason}): what was last read of it is shown, and "
                "nothing can be changed until it can"
            )
            fault = Finding(kind="index_unavailable", recording=None, message=message)
        else:
            message = (
                "the folder of the recordings is gone: what was in it is shown again when it is back, and it is made "
                "anew when something is to be kept"
            )
            fault = Finding(kind="folder_gone", recording=None, message=message)
        if self._fault is None:
            logger.warning("%s", message)
        self._fault, self._error, self._retry_at = fault, error, time.monotonic() + RETRY_SECONDS


def _code(error: Exception) -> int:
    """Return SQLite's primary result code; 0 for other errors."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
