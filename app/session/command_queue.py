"""Queue of commands that run on one thread, submitted from any."""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from app.ground.errors import AppError, one_sentence, refusal_of, refuse, refused

MAX_PENDING = 256  # commands waiting
LONGEST_WAIT = 60.0  # seconds for which the thread sleeps at once; a clock cannot count to every number

T = TypeVar("T")
logger = logging.getLogger(__name__)


class _Command(NamedTuple):
    do: Callable[[], Any]
    future: Future[Any]


class CommandQueue:
    """Commands in the order in which they came, until closed."""

    def __init__(self) -> None:
        self._refusal: AppError | None = None
        self._queue: queue.Queue[_Command] = queue.Queue(MAX_PENDING)
        self._ended = False

    @property
    def closed(self) -> bool:
        return self._refusal is not None

    @property
    def gone(self) -> AppError | None:
        """Error that answers commands after it is closed."""
        return self._refusal

    def ask(self, do: Callable[[], T]) -> T:
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
        if self._ended:  # it ended since the first line: no thread reads the queue
            self._refuse_all()
        return future.result()

    def wake(self) -> None:
        """Wake the working thread. May be called on any thread; does not wait."""
        if self._queue.empty():
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(_Command(lambda: None, Future()))

    def carry_out_next(self, wait: float | None) -> bool:
        """Execute the next command, on the working thread. Returns whether there was one within `wait` seconds.

        `wait` None: no limit. It may return earlier without a command: a single wait is at most `LONGEST_WAIT`.
        """
        try:
            command = self._queue.get(wait is None or wait > 0, wait if wait is None else min(wait, LONGEST_WAIT))
        except queue.Empty:
            return False
        try:
            result = command.do()
        except ValueError as error:  # ConfigError, RequestError: one sentence with the numbers
            command.future.set_exception(refused(error))
        except BaseException as error:
            refusal = refusal_of(error)
            if refusal is None:
                logger.exception("a command")
            command.future.set_exception(refusal or AppError("internal", one_sentence(error)))
        else:
            command.future.set_result(result)
        return True

    def close(self, gone: AppError) -> None:
        """Refuse all further commands with `gone`, and wake the working thread. May be called on any thread."""
        self._refusal = self._refusal or gone
        with contextlib.suppress(queue.Full):  # a full queue wakes the thread anyway
            self._queue.put_nowait(_Command(lambda: None, Future()))

    def end(self) -> None:
        """Refuse the waiting commands, at the end of the working thread."""
        self._ended = True
        self._refuse_all()

    def _refuse_all(self) -> None:
        assert self._refusal is not None
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait().future.set_exception(self._refusal)
