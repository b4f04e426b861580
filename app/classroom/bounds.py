"""Limits on the commands that guests send to their lab, or to the class's run while they drive."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from app.classroom.access import Access
from app.classroom.refusing import refusal
from app.ground.callers import Pass
from app.ground.errors import refused
from app.models.pool_bytes import pool_bytes
from app.session import messages
from app.session.session import Session
from engine.config import ConfigError, EngineConfig, SamplingParams

MAX_PROMPTS = 8  # at once
MAX_PROMPT_BYTES = 4096  # of UTF-8; other runs wait for a prefill step, whose time grows with the prompts
MAX_TOKENS = 256  # output tokens of one sequence
MAX_SEQUENCES = 8  # for one prompt
MAX_COMMANDS = 32  # concurrent commands of all guests, since each blocks a thread until a step ends
MAX_PER_GUEST = 4  # concurrent commands
MAX_READS_PER_GUEST = 2  # concurrent reads of record ranges, each of which may be megabytes


class Commands:
    """Pending commands of guests."""

    def __init__(self, access: Access, max_per_guest: int = MAX_PER_GUEST, max_total: int = MAX_COMMANDS) -> None:
        self._access, self._max_per_guest, self._max_total = access, max_per_guest, max_total
        self._pending: dict[Pass, int] = {}
        self._lock = threading.Lock()

    def begin(self, sid: str) -> Callable[[], None]:
        """Count a command as pending. Returns a function to call when the command has ended or failed.

        Raises:
            AppError: `busy`.
        """
        person = self._access.person(sid)
        if person.is_owner or person.seat is None:
            return lambda: None
        seat = person.seat
        with self._lock:
            own, total = self._pending.get(seat, 0), sum(self._pending.values())
            if own >= self._max_per_guest or total >= self._max_total:
                raise refusal("busy", "lab.busy")
            self._pending[seat] = own + 1
        return functools.partial(self._end, seat)

    def _end(self, seat: Pass) -> None:
        with self._lock:
            self._pending[seat] -= 1
            if not self._pending[seat]:
                del self._pending[seat]


def check_text(text: str) -> None:
    """Raise AppError `refused` if a guest's prompt is too long."""
    if len(text.encode("utf-8", "replace")) > MAX_PROMPT_BYTES:
        raise refusal("refused", "lab.text", n=MAX_PROMPT_BYTES)


def check_submit(message: messages.Submit, sampling: SamplingParams) -> None:
    """Raise AppError `refused` if a guest's submission exceeds a limit."""
    if len(message.prompts) > MAX_PROMPTS:
        raise refusal("refused", "lab.prompts", n=MAX_PROMPTS)
    for prompt in message.prompts:
        check_text(prompt.text)
    if sampling.max_tokens is None or sampling.max_tokens > MAX_TOKENS:
        raise refusal("refused", "lab.tokens", n=MAX_TOKENS)
    if sampling.num_sequences > MAX_SEQUENCES:
        raise refusal("refused", "lab.sequences", n=MAX_SEQUENCES)


def check_model(session: Session, model: str | None) -> None:
    """Check that a guest's run uses the class's model.

    Raises:
        AppError: `refused`.
    """
    if model not in (None, session.model_name):
        raise refusal("refused", "lab.model")


def check_configure(session: Session, config: EngineConfig) -> None:
    """Check that the pool of a guest's run is at most as large as that of the class's run.

    Raises:
        AppError: `refused`.
    """
    facts = session.model.facts
    try:
        wanted = pool_bytes(config, facts)
        limit = session.max_pool_bytes or pool_bytes(session.config, facts)
    except ConfigError as error:
        raise refused(error) from error
    if wanted > limit:
        raise refusal("refused", "lab.pool", most=limit, wanted=wanted)
