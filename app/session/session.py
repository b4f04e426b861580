"""Session: one engine, the thread that owns it, and the commands of its clients.

Every method may be called on any thread. Commands are queued for the engine thread, the only one that uses the engine,
and their results are returned through futures. Commands are executed before the next step, so a pause, a submission or
an abort waits for at most one step.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TypeVar

from msgspec import structs

from app.ground.errors import one_sentence, refuse
from app.ground.settings import ServerSettings
from app.models.engine_face import OwnTiers, Prompt, RecomputedLike, RequestLike, ServedModel
from app.models.registry import Models
from app.session.answers import Ended, Joined, Status
from app.session.broadcast import Broadcast, Emit
from app.session.closing import Closing
from app.session.command_queue import CommandQueue
from app.session.engine_lock import EngineLock, LabLock
from app.session.engine_loop import EngineLoop
from app.session.jobs import Fork, ForkJob, Performed, StepJob
from app.session.recorder import Recorder
from app.session.request_source import RequestSource
from app.session.run import Run, is_large, join_reply
from engine.config import EngineConfig, SamplingParams

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Session:
    """Live run and its viewers.

    Raises (every command):
        AppError: `refused` by the engine, `busy`, `unknown_theater` if the session has closed, `internal`.
    """

    def __init__(
        self,
        session_id: str,
        name: str,
        config: EngineConfig,
        model: str | None,
        models: Models,
        settings: ServerSettings,
        engine_lock: EngineLock | LabLock,
        emit: Emit,
        on_failure: Callable[[Session], object],
        observe: Callable[[Run], object],
        own: OwnTiers | None = None,
    ) -> None:
        """Start the engine thread and build the engine on it.

        Args:
            model: name of the model; None: the server's first.
            on_failure: called on the engine thread after an error has closed the session.
            observe: called with each run before its first record.
            own: tiers of the session's runs; None: those of the server.
        """
        self.session_id = session_id
        self.name = name
        self.last_used = time.monotonic()
        self.in_lesson = False  # driven by a lesson, which rejects other commands
        self.is_lab = isinstance(engine_lock, LabLock)
        self.is_api = False  # created for the OpenAI-compatible API
        self.max_pool_bytes: int | None = None  # limit for a lab's settings
        self._max_count = settings.max_count
        self._on_failure, self._observe = on_failure, observe
        self._models = models
        self._own = own
        self._commands = CommandQueue()
        self._broadcast = Broadcast(session_id, emit, self.status)
        self._recorder: Recorder | None = None  # the last one; it may have ended
        self._loop = EngineLoop(settings, engine_lock, on_change=self._broadcast.wake, on_begin=self._switch_run)
        self._thread = threading.Thread(target=self._work, name=f"engine-{session_id}", daemon=True)
        self._thread.start()
        try:
            self._begin(config, model)
        except BaseException:
            self.close(Closing("unbuilt"))
            raise

    # Queries that do not wait for the engine thread

    @property
    def run(self) -> Run:
        """The current run."""
        return self._loop.current

    @property
    def config(self) -> EngineConfig:
        """Requested settings."""
        return self._loop.config

    @property
    def next_config(self) -> EngineConfig:
        """Settings of the next run: the requested ones without ablations, which refer to the current run's records."""
        return structs.replace(self.config, ablate=None)

    @property
    def model_name(self) -> str:
        """Name of the current run's model."""
        return self._loop.model

    @property
    def model(self) -> ServedModel:
        """Model of the current run.

        Raises:
            AppError: `loading` if the run is over and its model was unloaded.
        """
        return self._models.find(self.model_name).model

    @property
    def num_viewers(self) -> int:
        return self._broadcast.num_viewers

    @property
    def is_counted(self) -> bool:
        """Whether it counts towards the limit of sessions."""
        return not self.is_lab and not self.is_api

    @property
    def is_idle(self) -> bool:
        """Whether it has no viewer and no pending work."""
        return not self.num_viewers and not self._loop.has_work

    @property
    def has_work(self) -> bool:
        """Whether it has pending work."""
        return self._loop.has_work

    @property
    def is_closed(self) -> bool:
        """Whether it rejects all commands."""
        return self._commands.closed

    def status(self) -> Status:
        """Return the payload of the `status` event."""
        loop, run = self._loop, self.run
        held_back = run.is_held_back  # the result of a hidden step is not published yet
        error = None if held_back else loop.error
        return {
            "theater": self.session_id,
            "epoch": run.epoch,
            "mode": loop.mode,
            "speed": loop.speed,
            "num_records": len(run.log),
            "unfinished": run.shown_unfinished() if held_back else loop.unfinished,
            "coming": [] if held_back else loop.steps_until_submission(),
            "viewers": self.num_viewers,
            "error": error.message if error else None,
            "said": dict(error.translations or {}) if error else {},
            "objection": structs.asdict(error.objection) if error and error.objection else None,
            "notice": loop.notice,
            "fork": loop.fork.status() if loop.fork else None,
            "recording": self._recorder.status() if self._recorder else None,
            "api": loop.source.status() if loop.source else None,
        }

    @property
    def is_running(self) -> bool:
        """Whether it is in running mode and has unfinished sequences."""
        return self._loop.mode == "running" and self._loop.unfinished > 0

    def join(
        self, sid: str, first: int, epoch: int | None, captures: bool, windows: bool = False
    ) -> tuple[Joined, Callable[[], None]]:
        """Make `sid` a viewer. Returns the acknowledgement, and a callback to call when it is queued.

        With `windows`, no records of a log that is too long for a page are sent; the page fetches those that it shows.
        """
        run = self.run
        if epoch is not None and epoch != run.epoch:
            first = 0
        first = min(first, len(run.log))
        self.last_used = time.monotonic()
        large = windows and not run.is_held_back and is_large(run.log)
        first = len(run.log) if large else first
        begin = self._broadcast.join(sid, run, first, captures, large)
        if self._commands.refusal is not None:  # the session may have closed before `sid` could get the notice
            raise self._commands.refusal
        return join_reply(self.session_id, run, first, self.status(), large), begin

    def hold_back(self, count: int | None) -> None:
        """Show viewers only the first `count` records of the current run; None: all records."""
        self.run.hold_back(count)
        self._broadcast.wake()

    def leave(self, sid: str) -> bool:
        """Remove a viewer. Returns whether `sid` was one."""
        found = self._broadcast.leave(sid)
        if found:
            self.last_used = time.monotonic()
        return found

    # Commands

    def submit(self, prompts: list[Prompt], sampling: SamplingParams) -> tuple[list[RequestLike], int]:
        """Submit all prompts or none. Returns the requests and the number of records."""
        return self._execute(lambda: self._loop.submit(prompts, sampling))

    def begin_fork(self, fork: Fork) -> ForkJob:
        """Begin to replay another run's log as a fork. The job's `forked` resolves at the change, or fails."""
        return self._execute(lambda: self._loop.add_fork(fork))

    def step(self, count: int, expect: int | None) -> Future[Performed]:
        """Run up to `count` steps, or none if the log has more than `expect` records."""
        return self._queue_steps(StepJob(count, expect, until_prefilled=False))

    def prefill(self, expect: int | None) -> Future[Performed]:
        """Step until every submitted prompt is prefilled."""
        return self._queue_steps(StepJob(self._max_count, expect, until_prefilled=True))

    def play(self, speed: float) -> Status:
        """Step at `speed` steps a second (0: as fast as possible) until paused. Returns the status."""
        self._execute(lambda: self._loop.play(speed))
        return self.status()

    def pause(self) -> Status:
        """Stop stepping after the current step. Returns the status."""
        self._execute(self._loop.pause)
        return self.status()

    def abort(self, request_id: str) -> int:
        """Abort a request. Returns the number of records."""
        return self._execute(lambda: self._loop.abort(request_id))

    def lose_instance(self, index: int) -> None:
        """Kill and restart an instance of the run."""
        self._execute(lambda: self._loop.lose_instance(index))

    def serve(self, source: RequestSource) -> None:
        """Serve the requests of `source`."""
        self._execute(lambda: self._loop.serve(source))

    @property
    def source(self) -> RequestSource | None:
        """Source of API requests."""
        return self._loop.source

    def wake(self) -> None:
        """Wake the engine thread to check its request source. Does not block."""
        self.last_used = time.monotonic()
        self._commands.wake()
        self._loop.wake()

    def reset(self, config: EngineConfig | None = None, model: str | None = None, own: OwnTiers | None = None) -> Run:
        """Begin a new log, with the given settings, model and tiers. If these are invalid, the old log continues."""
        self._own = own or self._own
        if self.source is not None and self.source.num_active:
            raise refuse("busy", "run.api", num_active=self.source.num_active)
        return self._begin(config, model or self.model_name)

    def _begin(self, config: EngineConfig | None, model: str | None) -> Run:
        lease = self._models.lease(model)  # loading does not block the engine thread
        try:
            return self._execute(lambda: self._loop.begin(config or self.next_config, lease, self._own))
        except BaseException:
            lease.close()
            raise

    def focus(self, layers: list[int] | None, heads: list[int] | None) -> None:
        """Set the layers and heads that are captured first."""
        self._execute(lambda: self._loop.focus(layers, heads))

    def recompute(
        self, seq_id: int, layer: int | None, heads: list[int] | None, num_tokens: int | None, residual: int = 0
    ) -> tuple[int, RecomputedLike]:
        """Recompute one layer of a sequence, or all (None), without the cache. Returns the epoch and the result."""
        return self._execute(lambda: self._loop.recompute(seq_id, layer, heads, num_tokens, residual))

    def record(self, begin: Callable[[Run], Recorder]) -> Status:
        """Record the run from its first record. Returns the status."""

        def do() -> None:
            if self._recorder and self._recorder.ended is None:
                raise refuse("refused", "run.recorded", name=self._recorder.name)
            self._recorder = begin(self.run)

        self._execute(do)
        return self.status()

    def stop_recording(self) -> Status:
        """Stop recording. Returns the status."""
        self._execute(lambda: self._end_recording("stopped"))
        return self.status()

    def close(self, why: Closing) -> None:
        """End both threads and delete the log; pending commands get `unknown_theater`. Idempotent."""
        self.begin_close(why)
        self.wait_closed(None)

    def begin_close(self, why: Closing) -> None:
        """Close without waiting for the current step."""
        self._commands.close(refuse("unknown_theater", "run.closed", session_id=self.session_id, why=why.sentence))
        self._broadcast.close(why)

    def wait_closed(self, seconds: float | None) -> bool:
        """Wait at most `seconds` (None: no limit) for the engine thread. Returns whether it has ended."""
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _execute(self, do: Callable[[], T]) -> T:
        self.last_used = time.monotonic()
        return self._commands.execute(do)

    def _queue_steps(self, job: StepJob) -> Future[Performed]:
        self._execute(lambda: self._loop.add_job(job))
        return job.future

    def _switch_run(self, run: Run) -> None:
        """Switch recorder and viewers to a new run. Called before `self.run` changes, so that viewers who join the old
        run meanwhile are switched too.
        """
        self._end_recording("reset", "the session was reset")
        self._broadcast.follow(run)
        self._observe(run)

    def _end_recording(self, ended: Ended, detail: str = "") -> None:
        if self._recorder:
            self._recorder.end(ended, detail)

    def _work(self) -> None:
        """Run the engine thread. An error closes the session, so that no command waits forever."""
        with ExitStack() as ending:  # every callback is called, even if one fails
            ending.callback(self._loop.end)
            ending.callback(self._end_recording, "closed", "the session was closed")
            ending.callback(self._fail_source)
            ending.callback(self._commands.end)
            try:
                self._execute_until_closed()
            except BaseException as error:
                logger.exception("session %s failed", self.session_id)
                self.close(Closing("mistake", one_sentence(error)))
                ending.callback(self._on_failure, self)
            self._loop.end_jobs(self._commands.refusal)

    def _fail_source(self) -> None:
        """Fail the pending requests of the source."""
        if self.source is not None and self._commands.refusal is not None:
            self.source.failed(self._commands.refusal)

    def _execute_until_closed(self) -> None:
        """Execute commands and steps until the session is closed."""
        while not self._commands.closed:
            if self._loop.must_restart:
                self._loop.restart(self.next_config, self._models.lease(self.model_name), self._own)
            self._loop.process_source(has_viewers=self.num_viewers > 0)
            if self._loop.must_restart:
                continue
            if not self._commands.execute_next(self._loop.seconds_to_next_step()):
                self._loop.advance()
            self._broadcast.wake()  # the status may have changed since the last record
