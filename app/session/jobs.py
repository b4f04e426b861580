"""Jobs of several steps, run one step at a time so that other commands are executed in between."""

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
    """A `step` or `prefill` in progress. `future` resolves when it ends."""

    def __init__(self, count: int, expect: int | None, until_prefilled: bool) -> None:
        """`expect`: number of records the client has seen; no step runs if the log has more when the job starts."""
        self.count = count
        self.expect = expect
        self.until_prefilled = until_prefilled
        self.performed = 0
        self.future: Future[Performed] = Future()

    def end(self, num_records: int) -> None:
        """Resolve the future with the steps performed so far."""
        self.future.set_result(Performed(num_records, self.performed))


class Fork:
    """Rerun of a log with one change. `close` releases the log."""

    def __init__(self, source_id: str, run: OpenLog, at: int, change: Change | None, follow: bool) -> None:
        """Open the log of `run`. Raises AppError `stale_epoch` if the run is over."""
        self._reading = contextlib.ExitStack()
        self.log: TraceReader = self._reading.enter_context(run.reading())
        self.source_id, self.epoch = source_id, run.epoch
        self.at, self.change, self.follow = at, change, follow

    def close(self) -> None:
        """Release the log. Idempotent; may be called on any thread."""
        self._reading.close()


class ForkJob:
    """A fork in progress. Only `forked` may be used on other threads than the engine thread."""

    def __init__(self, fork: Fork, engine: EngineLike) -> None:
        """Start the rerun. Raises ValueError if the log cannot be rerun on this engine."""
        self.fork = fork
        self.forked: Future[None] = Future()
        self._rerun: RerunLike = engine.rerun(fork.log, fork.at, fork.change, fork.follow)
        self._expected = self._rerun.num_expected
        self._ended = False

    def advance(self) -> bool:
        """Replay the next record. Returns False after the last one.

        An error is set on `forked`, or raised if `forked` is already resolved.
        """
        try:
            has_more = self._rerun.advance()
        except Exception as error:
            internal = AppError("internal", one_sentence(error))
            fallback = refused(error) if isinstance(error, ValueError) else internal
            refusal = refusal_of(error) or fallback
            was_forked = self.forked.done()
            self.end(refusal)
            if was_forked:
                raise refusal from error
            return False
        if self._rerun.is_forked and not self.forked.done():
            self.forked.set_result(None)
        if not has_more:
            self.end(None)
        return has_more

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
            "change": type(self.fork.change).__name__.removesuffix("Change").lower() if self.fork.change else None,
            "expected": self._expected,
            "forked": self._rerun.is_forked,
            "active": not self._ended,
            "left_out": list(self._rerun.left_out),
        }


def parse_change(message: messages.Change | None, model_text: str | None, base: EngineConfig) -> Change | None:
    """Return the change that a message requests. `model_text`: its prompt after the chat template.

    Raises:
        AppError: `bad_request`, naming the field.
    """
    match message:
        case messages.ForkToken():
            return TokenChange(seq_id=message.seq_id, token_id=message.token_id)
        case messages.ForkKeep():
            return KeepChange(seq_id=message.seq_id, position=message.position)
        case messages.ForkAblate():
            return AblateChange(layer=message.layer, head=message.head)
        case messages.ForkAbort():
            return AbortChange(request_id=message.request_id)
        case messages.ForkSampling():
            parse_sampling(message.sampling)
            return SamplingChange(request_id=message.request_id, sampling=message.sampling)
        case messages.ForkRequest():
            return RequestChange(
                prompt=model_text or "",
                sampling=parse_sampling(message.sampling),
                request_id=message.request_id,
                priority=message.priority,
                cache_salt=message.cache_salt,
            )
        case messages.ForkConfig():
            return ConfigChange(config=parse_config(message.config, base))
        case _:
            return None


def config_of(log: TraceReader) -> EngineConfig:
    """Return the settings in a log's header.

    Raises:
        AppError: `refused` if another version wrote settings that this one does not know.
    """
    try:
        return msgspec.convert(log.header.engine, EngineConfig)
    except msgspec.ValidationError as error:
        raise refuse("refused", "fork.settings", error=one_sentence(error)) from error
