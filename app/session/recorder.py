"""Recorder that copies a run's log into a file of the library while it grows."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from app.session.answers import Ended, RecordingStatus
from app.session.run import Run

logger = logging.getLogger(__name__)


class Recorder:
    """Recording in progress: a byte-identical copy of the log so far, then of each record as it is appended.

    Records are copied on the appending thread, before they are sent to any viewer, so a killed server loses at most the
    record being written. The file is locked while it grows; an unlocked file has no writer. If it cannot be written,
    the recording ends with its last complete record and the run continues.
    """

    def __init__(
        self,
        recording_id: str,
        name: str,
        path: Path,
        run: Run,
        reserve: Callable[[int], None],
        on_end: Callable[[Recorder], None],
    ) -> None:
        """Copy the log so far.

        Args:
            reserve: called with the new size of the file before each write; raises AppError if the quota is exceeded.
            on_end: called once, when the recording ends.

        Raises:
            OSError: the file cannot be written; it is deleted.
            AppError: the run is over, or the quota is exceeded.
        """
        self.recording_id, self.name, self.path = recording_id, name, path
        self.ended: Ended | None = None
        self.ended_detail = ""
        self._reserve, self._on_end = reserve, on_end
        self._log = run.full_log
        self._copied = 0  # bytes, up to the end of a record
        self.num_records = 0
        self._lock = threading.Lock()
        with contextlib.ExitStack() as cleanup:
            cleanup.enter_context(run.reading())  # the log stays open as long as it is copied
            self._file: IO[bytes] = cleanup.enter_context(open(path, "xb", buffering=0))
            cleanup.callback(self._remove_if_empty)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._copy()
            self._cleanup = cleanup.pop_all()
        self._unsubscribe = run.full_log.subscribe(lambda _: self._follow())
        self._follow()  # records appended meanwhile

    @property
    def num_bytes(self) -> int:
        return self._copied

    def status(self) -> RecordingStatus:
        """Return the recording's part of the session's status."""
        return {"id": self.recording_id, "name": self.name, "ended": self.ended, "ended_detail": self.ended_detail}

    def end(self, ended: Ended, detail: str = "") -> None:
        """End the recording after the last copied record. Idempotent."""
        with self._lock:
            if self.ended is not None:
                return
            self.ended, self.ended_detail = ended, detail
            self._unsubscribe()
            self._cleanup.close()
        self._on_end(self)

    def _follow(self) -> None:
        """Copy new records. Never raises, because the run must not depend on its recording."""
        try:
            with self._lock:
                if self.ended is None:
                    self._copy()
        except Exception as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            logger.warning("recording %s ended after %d records: %s", self.recording_id, self.num_records, reason)
            try:
                self.end("write_failed", f"the recording ended after {self.num_records} records: {reason}")
            except Exception:
                logger.exception("ending recording %s", self.recording_id)

    def _copy(self) -> None:
        count, end = len(self._log), self._log.num_bytes
        self._reserve(end)
        try:
            for chunk in self._log.file_chunks(end, first=self._copied):
                remaining = memoryview(chunk)
                while remaining:
                    remaining = remaining[self._file.write(remaining) :]
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), self._copied)
            raise
        self._copied, self.num_records = end, count

    def _remove_if_empty(self) -> None:
        if not self._copied:
            with contextlib.suppress(OSError):
                self.path.unlink()
