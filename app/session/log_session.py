"""Read-only sessions, which show a log to viewers and accept no commands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from app.ground.errors import app_sentence
from app.session.broadcast import Emit
from app.session.closing import Closing
from app.session.run import OpenLog
from engine.options.refusal import Sentence
from engine.trace.log import TraceWriter

if TYPE_CHECKING:
    from engine.observe.monitor.attachment import Attachment

from collections.abc import Callable

from app.session.answers import Joined, Status
from app.session.broadcast import Broadcast
from app.session.run import is_large, join_reply


class LogSession:
    """A log written outside of this session, and its viewers."""

    def __init__(self, session_id: str, run: OpenLog, emit: Emit) -> None:
        self.session_id = session_id
        self.run = run
        self.last_used = time.monotonic()
        self._broadcast = Broadcast(session_id, emit, self.status)
        self._broadcast.follow(run)

    @property
    def num_viewers(self) -> int:
        return self._broadcast.num_viewers

    @property
    def error(self) -> str | None:
        """Error of the log; usually None."""
        return None

    def status(self) -> Status:
        """Return the status, as `Session.status`; `mode` is "recording"."""
        return {
            "theater": self.session_id,
            "epoch": self.run.epoch,
            "mode": "recording",
            "speed": 0.0,
            "num_records": len(self.run.log),
            "unfinished": 0,
            "coming": [],
            "viewers": self.num_viewers,
            "error": self.error,
            "said": {},
            "objection": None,
            "notice": None,
            "fork": None,
            "recording": None,
            "api": None,
        }

    def join(
        self, sid: str, first: int, epoch: int | None, captures: bool = False, windows: bool = False
    ) -> tuple[Joined, Callable[[], None]]:
        """Make `sid` a viewer. Returns the acknowledgement, and a callback to call when it is queued.

        Arrays are not sent; a viewer fetches those that it shows. With `windows`, records of a log that is too long for
        a page are not sent either.
        """
        run = self.run
        first = min(first, len(run.log)) if epoch in (None, run.epoch) else 0
        large = windows and is_large(run.log)
        first = len(run.log) if large else first
        begin = self._broadcast.join(sid, run, first, captures=False, in_windows=large)
        return join_reply(self.session_id, run, first, self.status(), large), begin

    def leave(self, sid: str) -> bool:
        """Remove a viewer. Returns whether `sid` was one."""
        return self._broadcast.leave(sid)

    def switch_to(self, run: OpenLog) -> None:
        """Show another log instead. Current reads of the previous one continue to their end."""
        previous, self.run = self.run, run
        self._broadcast.follow(run)
        previous.retire()

    def wake(self) -> None:
        """Notify viewers of new records."""
        self._broadcast.wake()

    def close(self, why: Closing) -> None:
        """Notify the viewers and retire the run. Current reads continue to their end."""
        self._broadcast.close(why)
        self.run.retire()


class LogSessions(Protocol):
    """Log sessions of one kind, which have distinct ids."""

    what: Sentence  # name of the kind, in the error that a log session accepts no commands

    def owns(self, session_id: str) -> bool:
        """Return whether the id belongs to a session of this kind, open or not."""

    def get(self, session_id: str) -> LogSession:
        """Return the session, and open it first if necessary.

        Raises:
            AppError: `unknown_theater`, `not_found`; `refused` when a file cannot be read.
        """

    def forget_viewer(self, sid: str) -> object:
        """Forget a disconnected client."""

    def close(self, why: Closing) -> None:
        """Close all sessions and notify their viewers."""


ATTACHED = "attached"  # id of the only attached session of a server


class AttachedSession(LogSession):
    """Log of an attachment to a monitored server, and its viewers. At most one per server."""

    what = app_sentence("what.watched")

    def __init__(self, attachment: Attachment, emit: Emit) -> None:
        self._attachment = attachment
        super().__init__(ATTACHED, OpenLog(0, attachment.log), emit)
        attachment.log.subscribe(lambda record: self.wake())
        attachment.observed.on_next(self._switch_log)

    def _switch_log(self, log: TraceWriter) -> None:
        """Switch to the next log, which was begun because the previous one had become too long."""
        log.subscribe(lambda record: self.wake())
        self.switch_to(OpenLog(self.run.epoch + 1, log))

    def owns(self, session_id: str) -> bool:
        return session_id == ATTACHED

    def get(self, session_id: str) -> AttachedSession:
        return self

    def forget_viewer(self, sid: str) -> None:
        self.leave(sid)

    @property
    def error(self) -> str | None:
        return self._attachment.error

    def close(self, why: Closing) -> None:
        """Close the attachment, and notify the viewers. Current reads continue to their end."""
        self._attachment.close()
        super().close(why)
