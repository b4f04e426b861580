"""Source of a session's requests besides its page: `app.openai.engine.AsyncEngine`."""

from __future__ import annotations

from typing import Protocol

from app.ground.errors import AppError
from app.models.engine_face import EngineLike
from app.session.answers import ApiStatus
from engine.trace.records import StepRecord


class RequestSource(Protocol):
    """Every method but `num_active` and `status` is called on the engine thread, between two steps."""

    @property
    def num_active(self) -> int:
        """Number of unfinished requests: while there are any, the run cannot restart."""

    @property
    def has_news(self) -> bool:
        """Whether `tend` would do anything."""

    @property
    def has_more(self) -> bool:
        """Whether `tend` has left something that it could do at once."""

    def status(self) -> ApiStatus: ...

    def tend(self, engine: EngineLike, may_enter: bool) -> None:
        """Submit due requests, abort abandoned ones. `may_enter`: False while nothing may be submitted."""

    def took(self, record: StepRecord, num_waiting: int) -> None:
        """A record was appended to the log, after which so many sequences wait for room."""

    def begun(self) -> None:
        """A new run has begun; of the old one's requests none was under way."""

    def failed(self, refusal: AppError) -> None:
        """End all waiting requests: the run cannot continue."""
