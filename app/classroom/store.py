"""Storage of classes until a date, at the presenter's request. Nothing is written before the first request."""

from __future__ import annotations

import datetime
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from app.classroom.answers import StoredClass
from app.classroom.refusing import refusal
from app.classroom.results import ClassResults
from app.ground.errors import one_sentence

if TYPE_CHECKING:
    from app.classroom.database import Database

FILE = "classes.sqlite3"  # in the data folder
HOUR = 3600.0
LONGEST = datetime.timedelta(days=5 * 366)

logger = logging.getLogger(__name__)


class Store:
    """Classes stored in the database at `url`, or else in a file in the data folder. Without both, nothing is stored.

    Database modules are imported on first use, so that the server starts without them.

    Raises (every method):
        AppError: `unavailable`, when the database cannot be reached or written.
    """

    def __init__(self, data_dir: Path | None, url: str | None) -> None:
        self._file = None if url or data_dir is None else data_dir / FILE
        self._url = url
        self._database: Database | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="kept-classes", daemon=True)
        if self.can_keep:
            self._thread.start()

    @property
    def can_keep(self) -> bool:
        return self._url is not None or self._file is not None

    def save(self, results: ClassResults, until: datetime.date) -> None:
        """Store a class as it is now, replacing an earlier version.

        Raises:
            AppError: `refused` if there is neither a database nor a data folder.
        """
        if not self.can_keep:
            raise refusal("refused", "class.keeps_nothing")
        self._open().save(results, until)

    def all(self) -> list[StoredClass]:
        """Return the stored classes, the latest first."""
        found = self._existing()
        return found.all() if found else []

    def get(self, class_id: str) -> ClassResults:
        """Return a stored class.

        Raises:
            AppError: `not_found`.
        """
        found = self._existing()
        results = found.get(class_id) if found else None
        if results is None:
            raise refusal("not_found", "class.not_kept")
        return results

    def delete(self, class_id: str) -> None:
        """Delete the stored results of a class."""
        if found := self._existing():
            found.delete(class_id)

    def expire(self, today: datetime.date | None = None) -> int:
        """Delete classes stored until yesterday or before. Return their number."""
        found = self._existing()
        return found.expire(today or datetime.date.today()) if found else 0

    def stop(self) -> None:
        """Stop the thread and close the database when the server shuts down."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._database is not None:
            self._database.close()

    def _existing(self) -> Database | None:
        """Return the database; None if nothing was ever stored."""
        if not self.can_keep or (self._file is not None and not self._file.exists()):
            return None
        return self._open()

    def _open(self) -> Database:
        from app.classroom.database import Database, database_url, file_url

        with self._lock:
            if self._database is None:
                url = file_url(self._file) if self._file is not None else database_url(self._url or "")
                self._database = Database(url)
            return self._database

    def _watch(self) -> None:
        while True:
            try:
                self.expire()
            except Exception as error:
                logger.warning("deleting expired classes failed: %s", one_sentence(error))
            if self._closed.wait(HOUR):
                return
