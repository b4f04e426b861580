"""Rows of a library, which are cached in memory in case its folder or index is lost.

While the index is locked, damaged or missing, cached rows are returned, and updates at the end of recordings are
buffered. Missing rows are added to a restored or recreated index.
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
RETRY_SECONDS = 1.0  # time before a locked index is tried again, so that only few requests wait for it
MAX_FINDINGS = 100  # stored findings; older ones are dropped

INDEX_ERRORS = (sqlite3.Error, OSError)
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
        """Repair folder and index if the folder exists. `now` returns the time in the format of the rows."""
        self._folder, self._now = folder, now
        self._index: Index | None = None
        self._cached: dict[str, Row] = {}  # as last read or written, latest first
        self._unsaved: dict[str, Row] = {}  # rows that could not be written
        self._findings: list[Finding] = []
        self._fault: Finding | None = None
        self._error: Exception | None = None  # cause of the current failure
        self._retry_at = 0.0
        self._lock = threading.RLock()
        self.all()

    @property
    def findings(self) -> list[Finding]:
        """Inconsistencies found, both repaired and current ones."""
        return self._findings + ([self._fault] if self._fault else [])

    def all(self) -> list[Row]:
        """Return every row, latest first."""
        with self._lock:
            if self._index is not None or self._folder.is_dir():
                try:
                    self._cached = {row.recording_id: row for row in self._with_index(Index.rows)}
                    self._save()
                except INDEX_ERRORS:
                    pass  # reported by `findings`
            return [self._unsaved.get(row.recording_id, row) for row in self._cached.values()]

    def get(self, recording_id: str) -> Row | None:
        """Return the row of a recording."""
        with self._lock:
            known = self._unsaved.get(recording_id) or self._cached.get(recording_id)
            if recording_id in self._unsaved or (self._index is None and not self._folder.is_dir()):
                return known
            try:
                return self._with_index(lambda index: index.row(recording_id))
            except INDEX_ERRORS:
                return known

    def put(self, row: Row, must: bool = True) -> None:
        """Insert or replace a row. Unless `must`, the row is buffered while the index cannot be written."""
        with self._lock:
            try:
                self._with_index(lambda index: index.put(row))
                self._unsaved.pop(row.recording_id, None)
            except INDEX_ERRORS:
                if must:
                    raise
                self._unsaved[row.recording_id] = row
            if row.recording_id in self._cached:
                self._cached[row.recording_id] = row
            else:
                self._cached = {row.recording_id: row, **self._cached}

    def remove(self, recording_id: str) -> None:
        """Delete a row."""
        with self._lock:
            self._with_index(lambda index: index.remove(recording_id))
            self._cached.pop(recording_id, None)
            self._unsaved.pop(recording_id, None)

    def ensure_folder(self) -> None:
        """Create the folder if it is missing, and check the index."""
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._with_index(Index.rows)

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

    def _with_index(self, do: Callable[[Index], T]) -> T:
        """Call `do` with the index. If it seems damaged, it is reopened once."""
        if self._error is not None and _code(self._error) in LOCKED and time.monotonic() < self._retry_at:
            raise self._error
        try:
            if self._index is None or not self._index.still_exists:
                self._open()
            assert self._index is not None
            try:
                found = do(self._index)
            except sqlite3.Error as error:
                if _code(error) not in DAMAGED:
                    raise
                self._open()
                found = do(self._index)
        except INDEX_ERRORS as error:
            self._report_failure(error)
            raise
        self._fault = self._error = None
        return found

    def _open(self) -> None:
        """Open the index, add missing rows, and repair folder and index."""
        if self._index is not None:
            self._index.close()
            self._index = None
        if not self._folder.is_dir():
            raise FileNotFoundError(f"there is no folder {self._folder}")
        index, findings = open_index(self._folder / INDEX_FILE)
        try:
            found = {row.recording_id for row in index.rows()}
            missing = [row for row in self._cached.values() if row.recording_id not in found]
            for row in reversed(missing):  # so that the latest is inserted last
                index.put(row)
            if missing and not findings:
                message = f"{len(missing)} recordings were missing in the index and were restored"
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

    def _report_failure(self, error: Exception) -> None:
        if self._folder.is_dir():
            reason = (error.strerror if isinstance(error, OSError) else None) or one_sentence(error)
            message = (
                f"the index of the recordings cannot be used now ({reason}): the rows read last are shown, and "
                "recordings cannot be changed"
            )
            fault = Finding(kind="index_unavailable", recording=None, message=message)
        else:
            message = (
                "the folder of the recordings is gone: its recordings are shown again when it is restored, and it is "
                "created again with the next recording"
            )
            fault = Finding(kind="folder_gone", recording=None, message=message)
        if self._fault is None:
            logger.warning("%s", message)
        self._fault, self._error, self._retry_at = fault, error, time.monotonic() + RETRY_SECONDS


def _code(error: Exception) -> int:
    """Return SQLite's primary result code, or 0 for other errors."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
