"""Queue of commands that any thread may submit and one working thread executes."""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from app.ground.errors import AppError, one_sentence, refusal_of, refuse, refused

MAX_PENDING = 256  # commands waiting
LONGEST_WAIT = 60.0  # maximum seconds of a single wait, since `queue.get` rejects very large timeouts

T = TypeVar("T")
logger = logging.getLogger(__name__)


class _Command(NamedTuple):
    do: Callable[[], Any]
    future: Future[Any]


class CommandQueue:
    """First-in, first-out queue of commands."""

    def __init__(self) -> None:
        self._refusal: AppError | None = None
        self._queue: queue.Queue[_Command] = queue.Queue(MAX_PENDING)
        self._ended = False

    @property
    def closed(self) -> bool:
        return self._refusal is not None

    @property
    def refusal(self) -> AppError | None:
        """Error raised for commands after the queue is closed; None while it is open."""
        return self._refusal

    def execute(self, do: Callable[[], T]) -> T:
        """Execute a command on the working thread and return its result.

        Raises:
            AppError: the error of `do`: ValueError (of the engine) and OSError (of the disk) as `refused`, others as
                `internal`; `busy` if the queue is full.
        """
        if self._refusal is not None:
            raise self._refusal
        future: Future[T] = Future()
        try:
            self._queue.put_nowait(_Command(do, future))
        except queue.Full:
            raise refuse("busy", "run.commands", max_pending=MAX_PENDING) from None
        if self._ended:  # the working thread ended after the first check and no longer reads the queue
            self._refuse_all()
        return future.result()

    def wake(self) -> None:
        """Wake the working thread. May be called on any thread; does not wait."""
        if self._queue.empty():
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(_Command(lambda: None, Future()))

    def execute_next(self, wait: float | None) -> bool:
        """Execute the next command, on the working thread. Returns whether there was one within `wait` seconds.

        `wait` None: no limit. A single wait is at most `LONGEST_WAIT` seconds; False is returned after it too.
        """
        try:
            command = self._queue.get(wait is None or wait > 0, wait if wait is None else min(wait, LONGEST_WAIT))
        except queue.Empty:
            return False
        try:
            result = command.do()
        except ValueError as error:  # ConfigError, RequestError
            command.future.set_exception(refused(error))
        except BaseException as error:
            refusal = refusal_of(error)
            if refusal is None:
                logger.exception("a command")
            command.future.set_exception(refusal or AppError("internal", one_sentence(error)))
        else:
            command.future.set_result(result)
        return True

    def close(self, refusal: AppError) -> None:
        """Reject all further commands with `refusal`, and wake the working thread. May be called on any thread."""
        self._refusal = self._refusal or refusal
        with contextlib.suppress(queue.Full):  # a full queue wakes the thread anyway
            self._queue.put_nowait(_Command(lambda: None, Future()))

    def end(self) -> None:
        """Reject the queued commands. Called at the end of the working thread."""
        self._ended = True
        self._refuse_all()

    def _refuse_all(self) -> None:
        assert self._refusal is not None
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait().future.set_exception(self._refusal)
