"""Limits on guests' commands of a run: their own, or the class's while they drive."""

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
MAX_PROMPT_BYTES = 4096  # of UTF-8: a step of one's run is as long as its prompts, and others wait for it
MAX_TOKENS = 256  # of one answer
MAX_SEQUENCES = 8  # for one prompt
MAX_COMMANDS = (
    32  # concurrent requests of guests to runs: each holds a thread until a step ends, and other threads must stay free
)
MAX_OF_ONE = 4  # of one guest
MAX_READS_OF_ONE = 2  # ranges of records under way, of one guest: each may be megabytes


class Commands:
    """Pending commands of guests."""

    def __init__(self, access: Access, most_of_one: int = MAX_OF_ONE, most: int = MAX_COMMANDS) -> None:
        self._access, self._most_of_one, self._most = access, most_of_one, most
        self._under_way: dict[Pass, int] = {}
        self._lock = threading.Lock()

    def take(self, sid: str) -> Callable[[], None]:
        """Count a command in. Return a function to call when it is done, whatever its result.

        Raises:
            AppError: `busy`.
        """
        person = self._access.person(sid)
        if person.is_owner or person.seat is None:
            return lambda: None
        seat = person.seat
        with self._lock:
            mine, of_all = self._under_way.get(seat, 0), sum(self._under_way.values())
            if mine >= self._most_of_one or of_all >= self._most:
                raise refusal("busy", "lab.busy")
            self._under_way[seat] = mine + 1
        return functools.partial(self._give, seat)

    def _give(self, seat: Pass) -> None:
        with self._lock:
            self._under_way[seat] -= 1
            if not self._under_way[seat]:
                del self._under_way[seat]


def check_text(text: str) -> None:
    """Raises AppError: `refused`."""
    if len(text.encode("utf-8", "replace")) > MAX_PROMPT_BYTES:
        raise refusal("refused", "lab.text", n=MAX_PROMPT_BYTES)


def check_submit(message: messages.Submit, sampling: SamplingParams) -> None:
    """Raises AppError: `refused`."""
    if len(message.prompts) > MAX_PROMPTS:
        raise refusal("refused", "lab.prompts", n=MAX_PROMPTS)
    for prompt in message.prompts:
        check_text(prompt.text)
    if sampling.max_tokens is None or sampling.max_tokens > MAX_TOKENS:
        raise refusal("refused", "lab.tokens", n=MAX_TOKENS)
    if sampling.num_sequences > MAX_SEQUENCES:
        raise refusal("refused", "lab.sequences", n=MAX_SEQUENCES)


def check_model(session: Session, model: str | None) -> None:
    """Check that a guest's run is on the class's model.

    Raises:
        AppError: `refused`.
    """
    if model not in (None, session.model_name):
        raise refusal("refused", "lab.model")


def check_configure(session: Session, config: EngineConfig) -> None:
    """Check that a guest's run takes no more memory than the class's.

    Raises:
        AppError: `refused`.
    """
    facts = session.model.facts
    try:
        wanted = pool_bytes(config, facts)
        most = session.max_pool_bytes or pool_bytes(session.config, facts)
    except ConfigError as error:
        raise refused(error) from error
    if wanted > most:
        raise refusal("refused", "lab.pool", most=most, wanted=wanted)
