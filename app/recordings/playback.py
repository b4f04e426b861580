"""Opened recordings, which clients join and read like sessions, without commands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from app.ground.errors import app_sentence
from app.ground.plain import plain
from app.recordings.library import Library
from app.session.answers import JoinedRecording
from app.session.broadcast import Emit
from app.session.closing import Closing
from app.session.log_session import LogSession
from app.session.run import OpenLog

MAX_OPEN = 16  # open recordings; above it, the least recently used ones without viewers are closed
PREFIX = "rec-"


class Playback(LogSession):
    """Open recording and its viewers. A new epoch begins when the file was replaced by another log."""

    def __init__(self, recording_id: str, library: Library, emit: Emit) -> None:
        """Open a recording. Raises AppError if it does not exist or cannot be opened."""
        self._library = library
        super().__init__(recording_id, self._open_log(recording_id, 0), emit)

    def _open_log(self, recording_id: str, epoch: int) -> OpenLog:
        reader = self._library.open(recording_id)
        self._num_bytes, self._damage = reader.num_bytes, reader.damage
        return OpenLog(epoch, reader)

    def follow_file(self) -> None:
        """Switch to the current content of the file, if the file was replaced.

        Raises:
            AppError: the file cannot be opened.
        """
        if self.run.full_log.is_replaced:
            self.switch_to(self._open_log(self.session_id, self.run.epoch + 1))

    @property
    def error(self) -> str | None:
        return self._damage

    @property
    def has_grown(self) -> bool:
        """Whether the file has grown since it was opened, because it is still being recorded."""
        return self.run.log.num_bytes != self._num_bytes

    def join(
        self, sid: str, first: int, epoch: int | None, captures: bool = False, windows: bool = False
    ) -> tuple[JoinedRecording, Callable[[], None]]:
        """Make `sid` a viewer, and return the recording's entry too. Records of a large recording are not sent."""
        self.last_used = time.monotonic()
        answer, begin = super().join(sid, first, epoch, captures, windows=True)
        return {**answer, "recording": plain(self._library.entry(self.session_id))}, begin

    def leave(self, sid: str) -> bool:
        """Remove a viewer. Returns whether `sid` was one."""
        self.last_used = time.monotonic()
        return super().leave(sid)


class Playbacks:
    """Open recordings by id."""

    what = app_sentence("what.recording")

    def __init__(self, library: Library, emit: Emit) -> None:
        self._library, self._emit = library, emit
        self._open: dict[str, Playback] = {}
        self._lock = threading.Lock()

    def owns(self, session_id: str) -> bool:
        return session_id.startswith(PREFIX)

    def get(self, recording_id: str) -> Playback:
        """Return a recording, opening it if necessary.

        Raises:
            AppError: `not_found`; `refused` if the file cannot be read.
        """
        with self._lock:
            found = self._open.get(recording_id)
            if found is not None and found.has_grown and not found.num_viewers:
                self._open.pop(recording_id).close(Closing("grown"))
                found = None
            if found is None:
                found = self._open_log(recording_id)
            found.follow_file()
            found.last_used = time.monotonic()
            return found

    def forget_viewer(self, sid: str) -> None:
        """Remove a disconnected client."""
        for playback in list(self._open.values()):
            playback.leave(sid)

    def drop(self, recording_id: str, why: Closing) -> None:
        """Close a recording whose file is deleted."""
        with self._lock:
            found = self._open.pop(recording_id, None)
        if found:
            found.close(why)

    def close(self, why: Closing) -> None:
        for recording_id in list(self._open):
            self.drop(recording_id, why)

    def _open_log(self, recording_id: str) -> Playback:
        unused = sorted((p for p in self._open.values() if not p.num_viewers), key=lambda p: p.last_used)
        for playback in unused[: max(0, len(self._open) + 1 - MAX_OPEN)]:
            self._open.pop(playback.session_id).close(Closing("unused"))
        found = self._open[recording_id] = Playback(recording_id, self._library, self._emit)
        return found
