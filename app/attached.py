"""A running server that is watched, on stage: joined and read like a theater, but it takes no commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.answers import Joined, Status
from app.broadcast import Broadcast, Emit
from app.closing import Closing
from app.run import OpenLog

if TYPE_CHECKING:
    from engine.attach.attachment import Attachment

ATTACHED = "attached"  # its id: there is one a server


class AttachedWatch:
    """The log of an attachment and its viewers. The watched server does not notice either."""

    theater_id = ATTACHED

    def __init__(self, attachment: Attachment, emit: Emit) -> None:
        self._attachment = attachment
        self.run = OpenLog(0, attachment.log)
        self._broadcast = Broadcast(ATTACHED, emit, self.status)
        self._broadcast.follow(self.run)
        attachment.log.subscribe(lambda record: self._broadcast.wake())

    def status(self) -> Status:
        """As a recording's."""
        return {
            "theater": ATTACHED,
            "epoch": 0,
            "mode": "recording",
            "speed": 0.0,
            "num_records": len(self.run.log),
            "unfinished": 0,
            "coming": [],
            "viewers": self._broadcast.num_viewers,
            "error": self._attachment.error,
            "objection": None,
            "notice": None,
            "fork": None,
            "recording": None,
            "api": None,
        }

    def join(
        self, sid: str, first: int, epoch: int | None, captures: bool = False
    ) -> tuple[Joined, Callable[[], None]]:
        """Make `sid` a viewer; returns the acknowledgement, and what to call when that is on its way."""
        first = min(first, len(self.run.log)) if epoch in (None, 0) else 0
        begin = self._broadcast.join(sid, self.run, first, captures=False)
        answer: Joined = {
            "theater": ATTACHED,
            "epoch": 0,
            "header": self.run.header,
            "num_records": len(self.run.log),
            "from": first,
            "status": self.status(),
        }
        return answer, begin

    def leave(self, sid: str) -> bool:
        """Whether `sid` was a viewer; it is none now."""
        return self._broadcast.leave(sid)

    def close(self, why: Closing) -> None:
        """Listen no more, and tell the viewers. Reads under way go on to their end."""
        self._attachment.close()
        self._broadcast.close(why)
        self.run.retire()
