"""Source of API requests of a session, implemented by `app.openai.engine.AsyncEngine`."""

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
        """Number of unfinished requests. The run cannot be reset while there are any."""

    @property
    def has_news(self) -> bool:
        """Whether `tend` has requests to submit or abort."""

    @property
    def has_more(self) -> bool:
        """Whether requests have arrived that `tend` has not yet accepted."""

    def status(self) -> ApiStatus: ...

    def tend(self, engine: EngineLike, may_enter: bool) -> None:
        """Abort abandoned requests and, if `may_enter`, submit queued ones."""

    def took(self, record: StepRecord, num_waiting: int) -> None:
        """Process a new record of the log. `num_waiting`: number of waiting sequences after it."""

    def begun(self) -> None:
        """Process the start of a new run. The old one has no unfinished requests."""

    def failed(self, refusal: AppError) -> None:
        """Fail all waiting requests, because the run cannot continue."""
