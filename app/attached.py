"""A running server that is watched, on stage: joined and read like a theater, but it takes no commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.broadcast import Emit
from app.closing import Closing
from app.run import OpenLog
from app.showing import Showing

if TYPE_CHECKING:
    from engine.attach.attachment import Attachment

ATTACHED = "attached"  # its id: there is one a server


class AttachedWatch(Showing):
    """The log of an attachment and its viewers. The watched server does not notice either."""

    def __init__(self, attachment: Attachment, emit: Emit) -> None:
        self._attachment = attachment
        super().__init__(ATTACHED, OpenLog(0, attachment.log), emit)
        attachment.log.subscribe(lambda record: self.wake())

    @property
    def error(self) -> str | None:
        return self._attachment.error

    def close(self, why: Closing) -> None:
        """Listen no more, and tell the viewers. Reads under way go on to their end."""
        self._attachment.close()
        super().close(why)
