"""Source of a session's requests other than its page: `app.openai.engine.AsyncEngine`."""

from __future__ import annotations

from typing import Protocol

from app.ground.errors import AppError
from app.models.engine_face import EngineLike
from app.session.answers import ApiStatus
from engine.trace.records import StepRecord


class RequestSource(Protocol):
    """Source of requests. Methods other than `num_active` and `status` are called on the engine thread."""

    @property
    def num_active(self) -> int:
        """Number of unfinished requests, which prevent a restart of the run."""

    @property
    def has_news(self) -> bool:
        """Whether `tend` would do anything."""

    @property
    def has_more(self) -> bool:
        """Whether `tend` has more work that it could do at once."""

    def status(self) -> ApiStatus: ...

    def tend(self, engine: EngineLike, may_enter: bool) -> None:
        """Submit due requests, and abort abandoned ones. `may_enter` False: submit nothing."""

    def took(self, record: StepRecord, num_waiting: int) -> None:
        """Process a new record of the log. `num_waiting`: waiting sequences after it."""

    def begun(self) -> None:
        """Note that a new run has begun; the old one has no unfinished requests."""

    def failed(self, refusal: AppError) -> None:
        """End all waiting requests: the run cannot continue."""
