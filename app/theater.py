"""A theater: one engine, the thread that owns it, and what clients may ask of it.

Every method may be called from any thread. Commands go to the engine thread by a queue and come back as futures; the
engine is touched on that thread alone. Between two steps the thread always looks at its commands first, so a pause,
a submission or an abort waits for one step at most.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from app.broadcast import Broadcast, Emit
from app.engine_face import BuildEngine, Prompt, RequestLike
from app.errors import AppError, one_sentence
from app.jobs import Performed, StepJob
from app.run import Run
from app.settings import MIB, ServerSettings
from app.turns import Turns
from engine.config import EngineConfig, SamplingParams

MAX_PENDING = 256  # commands waiting for the engine thread

T = TypeVar("T")
Mode = Literal["paused", "running"]
logger = logging.getLogger(__name__)


class _Command(NamedTuple):
    do: Callable[[], Any]
    future: Future[Any]


class Theater:
    """One live run and its viewers.

    Raises (every command):
        AppError: `refused` the engine said no, `busy`, `unknown_theater` when it closed meanwhile, `internal`.
    """

    def __init__(
        self,
        theater_id: str,
        name: str,
        config: EngineConfig,
        build: BuildEngine,
        folder: Path,
        settings: ServerSettings,
        turns: Turns,
        emit: Emit,
    ) -> None:
        """Builds the engine on the theater's own thread; `folder` is for its logs."""
        self.theater_id = theater_id
        self.name = name
        self.config = config  # as asked for: the engine's is resolved, and would tie a later one to this strategy
        self.run: Run  # set by the first `_start_run`
        self.last_used = time.monotonic()
        self._build, self._folder, self._settings, self._turns = build, folder, settings, turns
        self._commands: queue.Queue[_Command] = queue.Queue(MAX_PENDING)
        self._jobs: deque[StepJob] = deque()
        self._mode: Mode = "paused"
        self._speed = 0.0
        self._next_step_at = 0.0
        self._error: str | None = None
        self._notice: str | None = None
        self._unfinished = 0
        self._next_epoch = 0
        self._closing = False
        self._focus: tuple[list[int] | None, list[int] | None] = (None, None)
        self._broadcast = Broadcast(theater_id, emit, self.status)
        self._thread = threading.Thread(target=self._work, name=f"engine-{theater_id}", daemon=True)
        self._thread.start()
        try:
            self._ask(lambda: self._start_run(config))
        except BaseException:
            self.close("it could not be built")
            raise

    # What is asked without the engine thread

    @property
    def num_viewers(self) -> int:
        return self._broadcast.num_viewers

    @property
    def is_idle(self) -> bool:
        """Nobody watches it and nothing is under way."""
        at_work = self._jobs or (self._mode == "running" and self._unfinished)
        return not self.num_viewers and not at_work

    def status(self) -> dict[str, Any]:
        """What it is doing, as the `status` event says it."""
        run = self.run
        return {
            "theater": self.theater_id,
            "epoch": run.epoch,
            "mode": self._mode,
            "speed": self._speed,
            "num_records": len(run.log),
            "unfinished": self._unfinished,
            "viewers": self.num_viewers,
            "error": self._error,
            "notice": self._notice,
        }

    def join(self, sid: str, first: int, epoch: int | None, captures: bool) -> dict[str, Any]:
        """Make `sid` a viewer; returns the acknowledgement."""
        run = self.run
        if epoch is not None and epoch != run.epoch:
            first = 0
        first = min(first, len(run.log))
        self._touch()
        self._broadcast.join(sid, run, first, captures)
        return {
            "theater": self.theater_id,
            "epoch": run.epoch,
            "header": run.header,
            "num_records": len(run.log),
            "from": first,
            "status": self.status(),
        }

    def leave(self, sid: str) -> bool:
        """Whether `sid` was a viewer; it is none now."""
        found = self._broadcast.leave(sid)
        if found:
            self._touch()
        return found

    # Commands

    def submit(self, prompts: list[Prompt], sampling: SamplingParams) -> tuple[list[RequestLike], int]:
        """All prompts or none. Returns the requests and the number of records."""

        def do() -> tuple[list[RequestLike], int]:
            if self._unfinished + len(prompts) > self._settings.max_unfinished:
                raise AppError(
                    "refused",
                    f"{len(prompts)} more would make {self._unfinished + len(prompts)} unfinished sequences; "
                    f"a theater takes {self._settings.max_unfinished}",
                )
            self._check_room()
            with self._turns:
                requests = self.run.engine.submit(prompts, sampling)
            self._error = None
            self._count_unfinished()
            return requests, len(self.run.log)

        return self._ask(do)

    def step(self, count: int, expect: int | None) -> Performed:
        """Up to `count` steps, none if the log has grown past `expect`."""
        return self._ask_steps(StepJob(count, expect, until_prefilled=False))

    def prefill(self, expect: int | None) -> Performed:
        """Step until every submitted prompt is computed."""
        return self._ask_steps(StepJob(self._settings.max_count, expect, until_prefilled=True))

    def play(self, speed: float) -> dict[str, Any]:
        """Step on its own, `speed` steps a second (0 = as fast as it goes), until paused."""

        def do() -> dict[str, Any]:
            self._end_jobs()
            self._mode, self._speed, self._next_step_at = "running", speed, time.monotonic()
            self._error = None
            return self.status()

        return self._ask(do)

    def pause(self) -> dict[str, Any]:
        """Step no more, after the step under way."""

        def do() -> dict[str, Any]:
            self._end_jobs()
            self._mode = "paused"
            return self.status()

        return self._ask(do)

    def abort(self, request_id: str) -> int:
        """End a request. Returns the number of records."""

        def do() -> int:
            with self._turns:
                found = self.run.engine.abort(request_id)
            if not found:
                raise AppError("refused", f"no unfinished request is called {request_id!r}")
            self._count_unfinished()
            return len(self.run.log)

        return self._ask(do)

    def reset(self, config: EngineConfig | None = None) -> Run:
        """A new log from the beginning, with other settings if given; if they cannot work, the old log goes on."""

        def do() -> Run:
            old = self.run
            self._start_run(config or self.config)
            old.retire()
            return self.run

        return self._ask(do)

    def focus(self, layers: list[int] | None, heads: list[int] | None) -> None:
        """What captures keep first."""

        def do() -> None:
            self.run.engine.focus(layers, heads)
            self._focus = (layers, heads)

        self._ask(do)

    def close(self, reason: str) -> None:
        """End both threads and delete the log; whoever still waits for an answer gets `unknown_theater`."""
        self._closing = True
        self._broadcast.close(reason)
        if threading.current_thread() is not self._thread:
            self._wake()
            self._thread.join()

    # On the caller's thread

    def _touch(self) -> None:
        self.last_used = time.monotonic()

    def _wake(self) -> None:
        with contextlib.suppress(queue.Full):  # then it has enough to wake up for
            self._commands.put_nowait(_Command(lambda: None, Future()))

    def _ask(self, do: Callable[[], T]) -> T:
        """Do it on the engine thread and wait for what comes of it."""
        future: Future[T] = Future()
        self._put(_Command(do, future))
        return future.result()

    def _ask_steps(self, job: StepJob) -> Performed:
        def do() -> None:
            if self._mode == "running":
                raise AppError("busy", "the theater is running; pause it before stepping")
            self._jobs.append(job)

        self._ask(do)
        return job.future.result()

    def _put(self, command: _Command) -> None:
        self._touch()
        if self._closing:
            raise self._gone()
        try:
            self._commands.put_nowait(command)
        except queue.Full:
            raise AppError("busy", f"{MAX_PENDING} commands are waiting already; try again in a moment") from None
        if not self._thread.is_alive():  # it ended between the two lines above: nobody will read the queue any more
            self._refuse_pending()

    def _gone(self) -> AppError:
        return AppError("unknown_theater", f"theater {self.theater_id} is closed")

    # On the engine thread

    def _work(self) -> None:
        while not self._closing:
            command = self._next_command()
            if command is not None:
                self._carry_out(command)
            elif self._jobs:
                self._advance(self._jobs[0])
            else:
                self._step_of_run()
        self._refuse_pending()
        if hasattr(self, "run"):
            self.run.retire()

    def _next_command(self) -> _Command | None:
        """The next command; None as soon as a step is due before one comes."""
        try:
            if self._jobs:
                return self._commands.get_nowait()
            if self._mode == "running" and self._unfinished:
                wait = self._next_step_at - time.monotonic()
                return self._commands.get(timeout=wait) if wait > 0 else self._commands.get_nowait()
            return self._commands.get()
        except queue.Empty:
            return None

    def _carry_out(self, command: _Command) -> None:
        try:
            result = command.do()
        except AppError as error:
            command.future.set_exception(error)
        except ValueError as error:  # ConfigError, RequestError, ModelError: one sentence with the numbers
            command.future.set_exception(AppError("refused", one_sentence(error)))
        except BaseException as error:
            logger.exception("theater %s", self.theater_id)
            command.future.set_exception(AppError("internal", one_sentence(error)))
        else:
            command.future.set_result(result)
        self._broadcast.wake()  # for the status

    def _start_run(self, config: EngineConfig) -> None:
        path = self._folder / f"{self.theater_id}-{self._next_epoch}.kvtrace"
        with self._turns:
            engine = self._build(config, path)
        run = Run(self._next_epoch, engine, path)
        if self._focus != (None, None):
            engine.focus(*self._focus)

        def appended(_: int) -> None:
            run.note_append()
            self._broadcast.wake()

        run.log.subscribe(appended)
        self._end_jobs()
        self._mode, self._error, self._notice, self._unfinished = "paused", None, None, 0
        self._next_epoch += 1
        self._broadcast.follow(run)  # before `self.run` changes: whoever joins in between is moved on to the new run
        self.run, self.config = run, config

    def _step_of_run(self) -> None:
        if self._mode != "running" or not self._unfinished:
            return
        # The next step is due one period after this one was, unless the engine cannot keep up.
        period = 1 / self._speed if self._speed else 0.0
        self._next_step_at = max(self._next_step_at + period, time.monotonic())
        with contextlib.suppress(AppError):  # paused then, and the status says why
            self._step()

    def _advance(self, job: StepJob) -> None:
        """One step of the job, or its end."""
        log = self.run.log
        stale = job.performed == 0 and job.expect is not None and job.expect < len(log)
        done = job.performed >= job.count or (job.until_prefilled and not self.run.engine.prefill_pending())
        if stale or done or not self._unfinished:
            self._jobs.popleft()
            job.end(len(log))
            return
        try:
            self._step()
            job.performed += 1
        except AppError as error:
            self._jobs.remove(job)
            job.future.set_exception(error)

    def _step(self) -> None:
        """One step of the engine. A failure pauses the theater and stays in the status; the log keeps what it has."""
        try:
            self._check_room()
            with self._turns:
                self.run.engine.step()
            self._count_unfinished()
            self._error = None
        except AppError as error:
            self._fail(error.message)
            raise
        except Exception as error:
            logger.exception("a step of theater %s", self.theater_id)
            message = f"the step failed: {one_sentence(error)}"
            self._fail(message)
            raise AppError("internal", message) from error

    def _fail(self, message: str) -> None:
        self._mode, self._error = "paused", message
        self._broadcast.wake()

    def _check_room(self) -> None:
        """Keep the log's file within its limit: first without captures, then not at all."""
        size, limit = self.run.log.num_bytes, self._settings.max_log_bytes
        if size >= 2 * limit:
            raise AppError("refused", f"the log has reached {size // MIB} MiB; reset the theater to go on")
        if size >= limit and self._notice is None:
            self.run.engine.stop_captures()
            self._notice = f"the log has passed {limit // MIB} MiB: tensors are no longer recorded; a reset starts anew"
            self._broadcast.wake()

    def _count_unfinished(self) -> None:
        self._unfinished = self.run.engine.num_unfinished()

    def _end_jobs(self) -> None:
        """Answer every job with what it has performed."""
        while self._jobs:
            self._jobs.popleft().end(len(self.run.log))

    def _refuse_pending(self) -> None:
        for job in tuple(self._jobs):
            job.future.set_exception(self._gone())
        self._jobs.clear()
        while True:
            try:
                command = self._commands.get_nowait()
            except queue.Empty:
                return
            if command.future.set_running_or_notify_cancel():
                command.future.set_exception(self._gone())
