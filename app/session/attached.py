"""A running server that is watched, on stage: joined and read like a theater, but it takes no commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.session.broadcast import Emit
from app.session.closing import Closing
from app.session.log_session import Showing
from app.session.run import OpenLog
from engine.trace.log import TraceWriter

if TYPE_CHECKING:
    from engine.attach.attachment import Attachment

ATTACHED = "attached"  # its id: there is one a server


class AttachedWatch(Showing):
    """The log of an attachment and its viewers. The watched server does not notice either."""

    def __init__(self, attachment: Attachment, emit: Emit) -> None:
        self._attachment = attachment
        super().__init__(ATTACHED, OpenLog(0, attachment.log), emit)
        attachment.log.subscribe(lambda record: self.wake())
        attachment.observed.on_next(self._turn)

    def _turn(self, log: TraceWriter) -> None:
        """The log had become long: the next one has begun."""
        log.subscribe(lambda record: self.wake())
        self.turn_to(OpenLog(self.run.epoch + 1, log))

    @property
    def error(self) -> str | None:
        return self._attachment.error

    def close(self, why: Closing) -> None:
        """Listen no more, and tell the viewers. Reads under way go on to their end."""
        self._attachment.close()
        super().close(why)
