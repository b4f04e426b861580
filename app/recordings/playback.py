"""A recording on stage: joined and read like a theater, but it takes no commands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from app.answers import Joined, JoinedRecording, Status
from app.broadcast import Broadcast, Emit
from app.closing import Closing
from app.plain import plain
from app.recordings.library import Library
from app.run import OpenLog

MAX_OPEN = 16  # recordings open without viewers; beyond that the one unused for longest is closed
PREFIX = "rec-"


class Playback:
    """One open recording and its viewers. Its epoch is always 0."""

    def __init__(self, recording_id: str, library: Library, emit: Emit) -> None:
        """Raises AppError: there is no such recording, or it cannot be opened."""
        self.recording_id = recording_id
        self.last_used = time.monotonic()
        self._library = library
        reader = library.open(recording_id)
        self.run = OpenLog(0, reader)
        self._num_bytes = reader.num_bytes
        self._damage = reader.damage
        self._broadcast = Broadcast(recording_id, emit, self.status)
        self._broadcast.follow(self.run)

    @property
    def num_viewers(self) -> int:
        return self._broadcast.num_viewers

    @property
    def has_grown(self) -> bool:
        """It is still being recorded: the file has more than was here when it was opened."""
        return self.run.log.num_bytes != self._num_bytes

    def status(self) -> Status:
        """As a theater's; `mode` is "recording"."""
        return {
            "theater": self.recording_id,
            "epoch": 0,
            "mode": "recording",
            "speed": 0.0,
            "num_records": len(self.run.log),
            "unfinished": 0,
            "coming": [],
            "viewers": self.num_viewers,
            "error": self._damage,
            "objection": None,
            "notice": None,
            "fork": None,
            "recording": None,
            "api": None,
        }

    def join(
        self, sid: str, first: int, epoch: int | None, captures: bool = False
    ) -> tuple[Joined, Callable[[], None]]:
        """Make `sid` a viewer; returns the acknowledgement, and what to call when that is on its way.

        Arrays are not sent along: a viewer fetches those that it shows.
        """
        first = min(first, len(self.run.log)) if epoch in (None, 0) else 0
        self.last_used = time.monotonic()
        begin = self._broadcast.join(sid, self.run, first, captures=False)
        answer: JoinedRecording = {
            "theater": self.recording_id,
            "epoch": 0,
            "header": self.run.header,
            "num_records": len(self.run.log),
            "from": first,
            "status": self.status(),
            "recording": plain(self._library.entry(self.recording_id)),
        }
        return answer, begin

    def leave(self, sid: str) -> bool:
        """Whether `sid` was a viewer; it is none now."""
        self.last_used = time.monotonic()
        return self._broadcast.leave(sid)

    def close(self, why: Closing) -> None:
        """Tell the viewers. Reads under way go on to their end."""
        self._broadcast.close(why)
        self.run.retire()


class Playbacks:
    """The recordings that are open, by id."""

    def __init__(self, library: Library, emit: Emit) -> None:
        self._library, self._emit = library, emit
        self._open: dict[str, Playback] = {}
        self._lock = threading.Lock()

    def get(self, recording_id: str) -> Playback:
        """The recording, opened when it is not.

        Raises:
            AppError: `not_found`, `refused` when its file cannot be read.
        """
        with self._lock:
            found = self._open.get(recording_id)
            if found is not None and found.has_grown and not found.num_viewers:
                self._open.pop(recording_id).close(Closing("grown"))
                found = None
            if found is None:
                found = self._opened(recording_id)
            found.last_used = time.monotonic()
            return found

    def forget_viewer(self, sid: str) -> None:
        """A client is gone."""
        for playback in list(self._open.values()):
            playback.leave(sid)

    def drop(self, recording_id: str, why: Closing) -> None:
        """Close a recording whose file goes away."""
        with self._lock:
            found = self._open.pop(recording_id, None)
        if found:
            found.close(why)

    def close(self) -> None:
        for recording_id in list(self._open):
            self.drop(recording_id, Closing("shutdown"))

    def _opened(self, recording_id: str) -> Playback:
        unused = sorted((p for p in self._open.values() if not p.num_viewers), key=lambda p: p.last_used)
        for playback in unused[: max(0, len(self._open) + 1 - MAX_OPEN)]:
            self._open.pop(playback.recording_id).close(Closing("unused"))
        found = self._open[recording_id] = Playback(recording_id, self._library, self._emit)
        return found
