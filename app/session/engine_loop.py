"""Engine loop of a session: its runs, mode, speed and requested steps. One thread only."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from app.ground.errors import AppError, one_sentence, refusal_of, refuse, said, sentence_of
from app.ground.settings import MIB, ServerSettings
from app.models.engine_face import OwnTiers, Prompt, RecomputedLike, RequestLike
from app.models.pool_bytes import pool_bytes
from app.models.registry import Lease
from app.session.engine_lock import EngineLock, LabLock
from app.session.jobs import Fork, ForkJob, StepJob
from app.session.request_source import RequestSource
from app.session.run import Run
from engine.config import EngineConfig, SamplingParams
from engine.trace.records import StepRecord

Mode = Literal["paused", "running"]
logger = logging.getLogger(__name__)


class _Later(NamedTuple):
    """Prompts that come in once `after` steps have been taken."""

    after: int
    prompts: list[Prompt]
    sampling: SamplingParams


class EngineLoop:
    """An engine at work. Methods and changes belong to the engine thread; other threads may read the attributes."""

    def __init__(
        self,
        settings: ServerSettings,
        turns: EngineLock | LabLock,
        changed: Callable[[], None],
        began: Callable[[Run], None],
    ) -> None:
        """`changed` is called when there is news, `began` with a new run just before it becomes `run`."""
        self._settings, self._turns = settings, turns
        self._changed, self._began = changed, began
        self.run: Run | None = None
        # as requested: the engine's is resolved, and would tie a later one to its strategy
        self.config = EngineConfig()
        self.model = ""  # that the run is on, by name
        self.mode: Mode = "paused"
        self.speed = 0.0  # steps a second, 0 = as fast as it goes
        self.error: AppError | None = None  # of the last step
        self.notice: str | None = None
        self.unfinished = 0
        self.fork: ForkJob | None = None  # the fork that this run began as
        self.source: RequestSource | None = None  # what sends requests besides the page
        self._is_watched = True
        self._later: list[_Later] = []  # what comes in by itself, by the step after which it does
        self._steps = 0  # taken since the log began
        self._over: AppError | None = None  # why nothing more can be written to the log
        self._jobs: deque[StepJob | ForkJob] = deque()
        self._next_step_at = 0.0
        self._next_epoch = 0
        self._focus: tuple[list[int] | None, list[int] | None] = (None, None)

    @property
    def current(self) -> Run:
        """The run; there is one after the first `begin`."""
        assert self.run is not None
        return self.run

    @property
    def at_work(self) -> bool:
        """Whether it continues to step without a further request."""
        return bool(self._jobs) or (self.mode == "running" and self.unfinished > 0)

    def seconds_to_next_step(self) -> float | None:
        """Return 0 when a step is due; None when none is until the next request."""
        if self._jobs:
            return 0.0
        return max(0.0, self._next_step_at - time.monotonic()) if self.at_work else None

    def begin(self, config: EngineConfig, lease: Lease, own: OwnTiers | None = None) -> Run:
        """Begin a new log, which takes `lease` over. `own`: as `BuildEngine` takes it.

        Raises ValueError for an impossible configuration; the old log continues, unless its pool had to be freed.
        """
        old, model = self.run, lease.model
        gives_up = old is not None and pool_bytes(config, model.facts) > model.free_bytes
        try:
            with self._turns:
                if gives_up:
                    self.current.engine.let_go()  # both pools at once have no room
                engine = model.build(config, None, own)
        except BaseException:
            if gives_up:  # its pool is gone
                self._over = refuse("refused", "run.gave_up")
            raise
        run = Run(self._next_epoch, engine, lease)
        if self._focus != (None, None):
            engine.focus(*self._focus)

        engine.observe(self._is_watched)
        run.whole.subscribe(lambda record: self._appended(record, run.whole.num_waiting))
        self.end_jobs()
        self.mode, self.notice, self.unfinished = "paused" if self.source is None else self.mode, None, 0
        self.error = None
        self.fork = self._over = None
        self._later, self._steps = [], 0
        self._next_epoch += 1
        self._began(run)
        if self.source is not None:
            self.source.begun()
        self.run, self.config, self.model = run, config, lease.name
        if old is not None:
            old.retire()
        return run

    def _appended(self, record: StepRecord, num_waiting: int) -> None:
        if self.source is not None:
            self.source.took(record, num_waiting)
        self._changed()

    def serve(self, source: RequestSource) -> None:
        """Take the source's requests from now on, and step by itself while there are any."""
        self.source = source
        self.play(0)

    def tend(self, is_watched: bool) -> None:
        """Process the source's requests between two steps. A run fed by a source captures only while it has viewers, so
        that
        clients do not wait for unseen captures.
        """
        if self.source is None:
            return
        if is_watched is not self._is_watched:
            self._is_watched = is_watched
            self.current.engine.observe(is_watched)
        if not self.source.has_news:
            return
        try:
            if self._over:
                raise self._over
            with self._writing():
                self.source.tend(self.current.engine, may_enter=not self.is_long)
        except (AppError, OSError) as error:
            refusal = refusal_of(error)
            self.source.failed(refusal or AppError("internal", one_sentence(error)))
        self.unfinished = self.current.engine.num_unfinished()

    @property
    def is_long(self) -> bool:
        """Whether the log is so long that a run with a source restarts as soon as it is idle."""
        return self._over is not None or 2 * self.current.whole.num_bytes >= 3 * self._settings.max_log_bytes

    def wake(self) -> None:
        """Have a step that waits for instances come back, from any thread: something else is to be done."""
        run = self.run
        with contextlib.suppress(AppError):  # it is over
            if run is not None:
                run.engine.wake()

    def end(self) -> None:
        """The last run is over: its engine goes."""
        if self.run is not None:
            self.run.retire()
        self.fork = None  # it refers to the engine

    def submit(self, prompts: list[Prompt], sampling: SamplingParams) -> tuple[list[RequestLike], int]:
        """Submit all prompts or none, those with `after_steps` so many steps from now; when nothing else is left to
        compute, the next of them does not wait. Returns the requests that came in at once, and the number of
        records.
        """
        unfinished = self.unfinished + sum(len(later.prompts) for later in self._later) + len(prompts)
        limit = self._settings.max_unfinished
        if unfinished > limit:
            raise refuse("refused", "run.unfinished", num_prompts=len(prompts), unfinished=unfinished, limit=limit)
        self._check_not_forking()
        self._check_log_size()
        engine = self.current.engine
        engine.check(prompts, sampling)
        now = [prompt for prompt in prompts if not prompt.after_steps]
        requests: list[RequestLike] = []
        if now:
            with self._writing():
                requests = engine.submit(now, sampling)
        self.error = None
        self.unfinished = engine.num_unfinished()
        for steps in sorted({prompt.after_steps for prompt in prompts} - {0}):
            those = [prompt for prompt in prompts if prompt.after_steps == steps]
            self._later.append(_Later(self._steps + steps, those, sampling))
        self._later.sort(key=lambda later: later.after)
        self._let_in()
        return requests, len(self.current.whole)

    def coming(self) -> list[int]:
        """Return the remaining steps until each later prompt; fewer when nothing else is left to compute."""
        return [later.after - self._steps for later in list(self._later) for _ in later.prompts]

    def abort(self, request_id: str) -> int:
        """End a request. Returns the number of records."""
        self._check_not_forking()
        with self._writing():
            found = self.current.engine.abort(request_id)
        if not found:
            raise refuse("refused", "request.unknown", request_id=request_id)
        self.unfinished = self.current.engine.num_unfinished()
        self._let_in()
        return len(self.current.whole)

    def lose_instance(self, index: int) -> None:
        """An instance ends, as a process does that is killed. ValueError: there is none."""
        with self._writing():
            self.current.engine.lose_instance(index)
        self.unfinished = self.current.engine.num_unfinished()

    def focus(self, layers: list[int] | None, heads: list[int] | None) -> None:
        """Set the first priority of captures, now and after a reset."""
        self.current.engine.focus(layers, heads)
        self._focus = (layers, heads)

    def recompute(
        self, seq_id: int, layer: int | None, heads: list[int] | None, num_tokens: int | None, residual: int = 0
    ) -> tuple[int, RecomputedLike]:
        """Return a layer of a sequence, or all (None), computed again without the cache, and the epoch that it
        belongs to.
        """
        with self._turns:
            run = self.current
            return run.epoch, run.engine.recompute_attention(seq_id, layer, heads, num_tokens, residual)

    def add_fork(self, fork: Fork) -> ForkJob:
        """Play another run's log to this one, which has no records yet. ValueError: it cannot be played here."""
        if len(self.current.whole):
            raise refuse("busy", "run.begun")
        self.fork = ForkJob(fork, self.current.engine)
        self._jobs.append(self.fork)
        return self.fork

    def add_job(self, job: StepJob) -> None:
        """Queue steps after those already requested."""
        if self.mode == "running":
            raise refuse("busy", "run.running")
        self._jobs.append(job)

    def play(self, speed: float) -> None:
        """Step on its own from now on."""
        self.end_jobs()
        if speed and self.mode == "running":  # it was free, and the next step may be far off
            with self._writing():
                self.current.engine.rest()
        self.mode, self.speed, self._next_step_at = "running", speed, time.monotonic()
        self.error = None

    def pause(self) -> None:
        """Step no more."""
        self.end_jobs()
        self.mode, self.current.was_halted = "paused", True
        with self._writing():
            self.current.engine.rest()
        self.unfinished = self.current.engine.num_unfinished()

    def advance(self) -> None:
        """Perform the step that is due, if one is."""
        if self._jobs:
            job = self._jobs[0]
            if isinstance(job, ForkJob):
                self._advance_fork(job)
            else:
                self._advance_job(job)
        elif self.seconds_to_next_step() == 0:
            # The next step is due one period after this one was, unless the engine cannot keep up.
            period = 1 / self.speed if self.speed else 0.0
            self._next_step_at = max(self._next_step_at + period, time.monotonic())
            with contextlib.suppress(AppError):  # paused then, and the status says why
                self._step()

    def end_jobs(self, error: AppError | None = None) -> None:
        """Answer every job, with what it has performed or with the error."""
        while self._jobs:
            job = self._jobs.popleft()
            if isinstance(job, ForkJob):
                job.end(error)
            elif error:
                job.future.set_exception(error)
            else:
                job.end(len(self.current.whole))

    def _advance_fork(self, job: ForkJob) -> None:
        """Advance the fork by a record, or end it."""
        try:
            self._check_log_size()
            with self._turns:
                going = job.advance()
        except AppError as error:
            job.end(error)
            going = False
            self._fail(error)
        self.unfinished = self.current.engine.num_unfinished()
        if not going and job in self._jobs:
            self._jobs.remove(job)
        if not going:
            self._changed()

    def _advance_job(self, job: StepJob) -> None:
        """Advance the job by a step, or end it."""
        log = self.current.whole
        stale = job.performed == 0 and job.expect is not None and job.expect < len(log)
        done = job.performed >= job.count or (job.until_prefilled and not self.current.engine.prefill_pending())
        if stale or done or not self.unfinished:
            self._jobs.popleft()
            job.end(len(log))
            return
        try:
            record = self._step()
            job.performed += record is not None
        except AppError as error:
            self._jobs.remove(job)
            job.future.set_exception(error)
            return
        is_one = self.current.engine.config.num_instances == 0  # others' prompts are computed beside
        if job.until_prefilled and is_one and record and not any(entry.phase == "prefill" for entry in record.batch):
            # The sequences that still wait have no room: going on would decode the others to their ends.
            self._jobs.remove(job)
            job.end(len(log))

    def _step(self) -> StepRecord | None:
        """Run a step of the engine; return None without a record yet. A failure pauses and stays in the status; the log
        is preserved.
        """
        try:
            self._check_log_size()
            run, is_free = self.current, self.mode == "running" and not self.speed
            run.was_halted |= not is_free
            with self._writing():
                record = run.engine.step(goes_on=is_free, waits=self.source is None or not self.source.has_more)
            if record is not None:
                run.was_halted = not is_free
            self._steps += record is not None
            self.unfinished = self.current.engine.num_unfinished()
            self.error = None
            self._let_in()
            return record
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                logger.exception("a step")
                objection = getattr(error, "objection", None)
                failed = said("step.failed", error=sentence_of(error))
                refusal = AppError("internal", failed, objection)
            if self.source is None:
                self._fail(refusal)
            else:  # its batch was aborted: others go on
                self.error, self.unfinished = refusal, self.current.engine.num_unfinished()
                if self._over:
                    self.source.failed(refusal)
            raise refusal from None

    def _let_in(self) -> None:
        """Submit what is due, and what would wait for steps that are never taken."""
        while self._later and (self._later[0].after <= self._steps or not self.unfinished):
            later = self._later.pop(0)
            with self._writing():
                self.current.engine.submit(later.prompts, later.sampling)
            self.unfinished = self.current.engine.num_unfinished()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Take a turn of the engine. When its log cannot be written the run is over: the engine is ahead of the log
        then.
        """
        try:
            with self._turns:
                yield
        except OSError as error:
            self._over = refusal_of(error)
            raise

    def _fail(self, error: AppError) -> None:
        self.mode, self.error = "paused", error
        self._changed()

    def _check_not_forking(self) -> None:
        """Raise while a run is made again: an input now would make it another run."""
        if any(isinstance(job, ForkJob) for job in self._jobs):
            raise refuse("busy", "run.forking")

    def _check_log_size(self) -> None:
        """Keep the log's file within its limit: first without captures, then not at all. One that ended stays so."""
        if self._over:
            raise self._over
        size, limit = self.current.whole.num_bytes, self._settings.max_log_bytes
        if size >= 2 * limit:
            raise refuse("refused", "log.long", number=size // MIB)
        if size >= limit and self.notice is None:
            self.current.engine.stop_captures()
            self.notice = f"the log has passed {limit // MIB} MiB: tensors are no longer recorded; a reset starts anew"
            self._changed()
