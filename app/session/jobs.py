"""Jobs of several steps: run one step at a time, so that other commands get their turn in between."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from typing import NamedTuple

import msgspec

from app.ground.errors import AppError, one_sentence, refusal_of, refuse, refused
from app.models.engine_face import EngineLike, RerunLike
from app.session import messages
from app.session.answers import ForkStatus
from app.session.messages import parse_config, parse_sampling
from app.session.run import OpenLog
from engine.config import EngineConfig
from engine.lab.change import (
    AblateChange,
    AbortChange,
    Change,
    ConfigChange,
    KeepChange,
    RequestChange,
    SamplingChange,
    TokenChange,
)
from engine.trace.log import TraceReader


class Performed(NamedTuple):
    """Result of a `step` or `prefill`."""

    num_records: int  # in the log now
    performed: int  # steps


class StepJob:
    """A `step` or `prefill` under way. `future` is answered when it ends."""

    def __init__(self, count: int, expect: int | None, until_prefilled: bool) -> None:
        """`expect`: the number of records the client saw; nothing is done if there are more when its turn comes."""
        self.count = count
        self.expect = expect
        self.until_prefilled = until_prefilled
        self.performed = 0
        self.future: Future[Performed] = Future()

    def end(self, num_records: int) -> None:
        """Answer with what was performed."""
        self.future.set_result(Performed(num_records, self.performed))


class Fork:
    """Rerun of a log with one change. Closed when the log is no longer read."""

    def __init__(self, source_id: str, run: OpenLog, at: int, change: Change | None, follow: bool) -> None:
        """Raises AppError: `stale_epoch`."""
        self._reading = contextlib.ExitStack()
        self.log: TraceReader = self._reading.enter_context(run.reading())
        self.source_id, self.epoch = source_id, run.epoch
        self.at, self.change, self.follow = at, change, follow

    def close(self) -> None:
        """Idempotent; from any thread."""
        self._reading.close()


class ForkJob:
    """A fork under way. Everything but `forked` belongs to the engine thread."""

    def __init__(self, fork: Fork, engine: EngineLike) -> None:
        """Raises ValueError: a run that cannot be run again here."""
        self.fork = fork
        self.forked: Future[None] = Future()
        self._rerun: RerunLike = engine.rerun(fork.log, fork.at, fork.change, fork.follow)
        self._expected = self._rerun.num_expected
        self._ended = False

    def advance(self) -> bool:
        """Play the next record; False: there is none. A failure is in `forked`, or raised if that was answered."""
        try:
            going = self._rerun.advance()
        except Exception as error:
            internal = AppError("internal", one_sentence(error))
            unforeseen = refused(error) if isinstance(error, ValueError) else internal
            refusal = refusal_of(error) or unforeseen
            was_forked = self.forked.done()
            self.end(refusal)
            if was_forked:
                raise refusal from error
            return False
        if self._rerun.is_forked and not self.forked.done():
            self.forked.set_result(None)
        if not going:
            self.end(None)
        return going

    def end(self, error: AppError | None) -> None:
        """End the fork, finished or not. Idempotent."""
        self._ended = True
        self.fork.close()
        if not self.forked.done():
            self.forked.set_exception(error or refuse("refused", "fork.stopped"))

    def status(self) -> ForkStatus:
        """Return the fork's part of the session's status."""
        return {
            "source": self.fork.source_id,
            "epoch": self.fork.epoch,
            "at": self.fork.at,
            "change": None
            if self.fork.change is None
            else type(self.fork.change).__name__.removesuffix("Change").lower(),
            "expected": self._expected,
            "forked": self._rerun.is_forked,
            "active": not self._ended,
            "left_out": list(self._rerun.left_out),
        }


def change_of(wish: messages.Change | None, model_text: str | None, base: EngineConfig) -> Change | None:
    """Return the change that a message requests. `model_text`: its prompt as the model will see it.

    Raises:
        AppError: `bad_request`, naming the field.
    """
    match wish:
        case messages.ForkToken():
            return TokenChange(seq_id=wish.seq_id, token_id=wish.token_id)
        case messages.ForkKeep():
            return KeepChange(seq_id=wish.seq_id, position=wish.position)
        case messages.ForkAblate():
            return AblateChange(layer=wish.layer, head=wish.head)
        case messages.ForkAbort():
            return AbortChange(request_id=wish.request_id)
        case messages.ForkSampling():
            parse_sampling(wish.sampling)
            return SamplingChange(request_id=wish.request_id, sampling=wish.sampling)
        case messages.ForkRequest():
            return RequestChange(
                prompt=model_text or "",
                sampling=parse_sampling(wish.sampling),
                request_id=wish.request_id,
                priority=wish.priority,
                cache_salt=wish.cache_salt,
            )
        case messages.ForkConfig():
            return ConfigChange(config=parse_config(wish.config, base))
        case _:
            return None


def config_of(log: TraceReader) -> EngineConfig:
    """Return the settings in a log's header.

    Raises:
        AppError: `refused`, another version's.
    """
    try:
        return msgspec.convert(log.header.engine, EngineConfig)
    except msgspec.ValidationError as error:
        raise refuse("refused", "fork.settings", error=one_sentence(error)) from error
