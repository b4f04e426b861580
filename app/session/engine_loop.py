"""Engine loop of a session: its runs, mode, speed and requested steps. Runs on one thread."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from app.ground.errors import AppError, app_sentence, one_sentence, refusal_of, refuse, sentence_of
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


class _DelayedPrompts(NamedTuple):
    """Prompts that are submitted after step `after_step`."""

    after_step: int
    prompts: list[Prompt]
    sampling: SamplingParams


class EngineLoop:
    """Steps the engine of a session. Methods are called on the engine thread only; any thread may read attributes."""

    def __init__(
        self,
        settings: ServerSettings,
        engine_lock: EngineLock | LabLock,
        on_change: Callable[[], None],
        on_begin: Callable[[Run], None],
    ) -> None:
        """Set up the loop. `on_change` is called after changes, `on_begin` with a new run before it becomes `run`."""
        self._settings, self._engine_lock = settings, engine_lock
        self._on_change, self._on_begin = on_change, on_begin
        self.run: Run | None = None
        # unresolved settings, because resolved ones would fix defaults that depend on the strategy
        self.config = EngineConfig()
        self.model = ""  # name of the run's model
        self.mode: Mode = "paused"
        self.speed = 0.0  # steps a second; 0: as fast as possible
        self.error: AppError | None = None  # of the last step
        self.notice: str | None = None
        self.unfinished = 0
        self.fork: ForkJob | None = None  # set if this run is a fork
        self.source: RequestSource | None = None  # source of API requests
        self._has_viewers = True
        self._delayed: list[_DelayedPrompts] = []  # by step
        self._steps = 0  # steps since the log began
        self._log_error: AppError | None = None  # set when the log cannot be continued
        self._jobs: deque[StepJob | ForkJob] = deque()
        self._next_step_at = 0.0
        self._next_epoch = 0
        self._focus: tuple[list[int] | None, list[int] | None] = (None, None)

    @property
    def current(self) -> Run:
        """Current run, after the first `begin`."""
        assert self.run is not None
        return self.run

    @property
    def has_work(self) -> bool:
        """Whether a step will run without another command."""
        return bool(self._jobs) or (self.mode == "running" and self.unfinished > 0 and self._log_error is None)

    def seconds_to_next_step(self) -> float | None:
        """Return the seconds to the next step (0: due now), or None if no step is due until the next command."""
        if self._jobs:
            return 0.0
        return max(0.0, self._next_step_at - time.monotonic()) if self.has_work else None

    def begin(self, config: EngineConfig, lease: Lease, own: OwnTiers | None = None) -> Run:
        """Begin a new run, which takes over `lease`. `own`: see `BuildEngine`.

        Raises ValueError for an invalid configuration. The old run then continues, unless its pool had to be freed.
        """
        old, model, frees_old_pool = self.run, lease.model, False
        try:
            # building may wait for processes or read a draft model, so other sessions step meanwhile
            with self._engine_lock.building:
                is_too_large = pool_bytes(config, model.facts) > model.free_bytes
                frees_old_pool = old is not None and not old.is_over and is_too_large
                if frees_old_pool:
                    with self._engine_lock:
                        self.current.engine.release()
                engine = model.build(config, None, own)
        except BaseException:
            if frees_old_pool:
                self._log_error = refuse("refused", "run.gave_up")
            raise
        run = Run(self._next_epoch, engine, lease)
        if self._focus != (None, None):
            engine.focus(*self._focus)
        engine.observe(self._has_viewers)
        run.full_log.subscribe(lambda record: self._appended(record, run.full_log.num_waiting))
        self.end_jobs()
        self.mode, self.notice, self.unfinished = "paused" if self.source is None else self.mode, None, 0
        self.error = None
        self.fork = self._log_error = None
        self._delayed, self._steps = [], 0
        self._next_epoch += 1
        self._on_begin(run)
        if self.source is not None:
            self.source.begun()
        self.run, self.config, self.model = run, config, lease.name
        if old is not None:
            old.retire()
        return run

    def _appended(self, record: StepRecord, num_waiting: int) -> None:
        if self.source is not None:
            self.source.took(record, num_waiting)
        self._on_change()

    def serve(self, source: RequestSource) -> None:
        """Serve the requests of `source`, stepping as fast as possible."""
        self.source = source
        self.play(0)

    def process_source(self, has_viewers: bool) -> None:
        """Process the source's requests between two steps.

        A run with a source captures arrays only while it has viewers, so that clients do not wait for unused captures.
        """
        if self.source is None:
            return
        if self._log_error is not None:
            if self.source.has_news:
                self._fail_source(self.source, self._log_error)
            return
        if has_viewers is not self._has_viewers:
            self._has_viewers = has_viewers
            self.current.engine.observe(has_viewers)
        if not self.source.has_news:
            return
        try:
            with self._writing():
                self.source.tend(self.current.engine, may_enter=not self._is_long)
        except (AppError, OSError) as error:
            self._fail_source(self.source, refusal_of(error) or AppError("internal", one_sentence(error)))
        self.unfinished = self.current.engine.num_unfinished()

    def _fail_source(self, source: RequestSource, refusal: AppError) -> None:
        """Fail all requests of the source. If the log has ended, the error is `unavailable`, so clients may retry."""
        if self._log_error is not None:
            refusal = AppError("unavailable", refusal.message, translations=refusal.translations)
        source.failed(refusal)

    @property
    def _is_long(self) -> bool:
        return 2 * self.current.full_log.num_bytes >= 3 * self._settings.max_log_bytes

    @property
    def must_restart(self) -> bool:
        """Whether a run with a source must restart: it is idle and its log is long, or its log has ended and a request
        is waiting.
        """
        if self.source is None:
            return False
        return self.source.has_more if self._log_error is not None else self._is_long and not self.unfinished

    def restart(self, config: EngineConfig, lease: Lease, own: OwnTiers | None) -> None:
        """Begin a new run, with an empty cache. If its log cannot be written, close the old log and try again."""
        why = "had become too long" if self._log_error is None else "could not be written"
        try:
            try:
                self.begin(config, lease, own)
            except OSError:
                self.current.retire()
                self.begin(config, lease, own)
        except OSError as error:
            lease.close()
            self._log_error = refusal_of(error)
        else:
            self.notice = f"the log {why}, so a new run with an empty cache has begun"

    def wake(self) -> None:
        """Interrupt a step that waits for instances. May be called on any thread."""
        run = self.run
        with contextlib.suppress(AppError):  # the run is over
            if run is not None:
                run.engine.wake()

    def end(self) -> None:
        """Retire the last run and its engine."""
        if self.run is not None:
            self.run.retire()
        self.fork = None  # the fork refers to the engine

    def submit(self, prompts: list[Prompt], sampling: SamplingParams) -> tuple[list[RequestLike], int]:
        """Submit all prompts or none. Prompts with `after_steps` are submitted after that number of steps, or earlier
        if the engine is idle.

        Returns the requests submitted immediately, and the number of records.
        """
        unfinished = self.unfinished + sum(len(delayed.prompts) for delayed in self._delayed) + len(prompts)
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
            group = [prompt for prompt in prompts if prompt.after_steps == steps]
            self._delayed.append(_DelayedPrompts(self._steps + steps, group, sampling))
        self._delayed.sort(key=lambda delayed: delayed.after_step)
        self._submit_due()
        return requests, len(self.current.full_log)

    def steps_until_submission(self) -> list[int]:
        """Return, for each delayed prompt, the steps until it is submitted if the engine does not become idle."""
        return [delayed.after_step - self._steps for delayed in list(self._delayed) for _ in delayed.prompts]

    def abort(self, request_id: str) -> int:
        """Abort a request. Returns the number of records."""
        self._check_not_forking()
        with self._writing():
            found = self.current.engine.abort(request_id)
        if not found:
            raise refuse("refused", "request.unknown", request_id=request_id)
        self.unfinished = self.current.engine.num_unfinished()
        self._submit_due()
        return len(self.current.full_log)

    def lose_instance(self, index: int) -> None:
        """Kill an instance. Raises ValueError if no instance has this index."""
        with self._writing():
            self.current.engine.lose_instance(index)
        self.unfinished = self.current.engine.num_unfinished()

    def focus(self, layers: list[int] | None, heads: list[int] | None) -> None:
        """Set the layers and heads that are captured first, in this run and later ones."""
        self.current.engine.focus(layers, heads)
        self._focus = (layers, heads)

    def recompute(
        self, seq_id: int, layer: int | None, heads: list[int] | None, num_tokens: int | None, residual: int = 0
    ) -> tuple[int, RecomputedLike]:
        """Recompute one layer of a sequence, or all (None), without the cache. Returns the epoch and the result."""
        with self._engine_lock:
            run = self.current
            return run.epoch, run.engine.recompute_attention(seq_id, layer, heads, num_tokens, residual)

    def add_fork(self, fork: Fork) -> ForkJob:
        """Replay another run's log into this run, which must be empty. Raises ValueError if it cannot be replayed."""
        if len(self.current.full_log):
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
        """Step at `speed` steps a second until paused; 0: as fast as possible."""
        self.end_jobs()
        if speed and self.mode == "running":  # finish work begun ahead, since the next step may be far off
            with self._writing():
                self.current.engine.rest()
        self.mode, self.speed, self._next_step_at = "running", speed, time.monotonic()
        self.error = None

    def pause(self) -> None:
        """Stop stepping."""
        self.end_jobs()
        self.mode, self.current.was_halted = "paused", True
        with self._writing():
            self.current.engine.rest()
        self.unfinished = self.current.engine.num_unfinished()

    def advance(self) -> None:
        """Take a step, if one is due."""
        if self._jobs:
            job = self._jobs[0]
            if isinstance(job, ForkJob):
                self._advance_fork(job)
            else:
                self._advance_job(job)
        elif self.seconds_to_next_step() == 0:
            # one period after the due time of this step, or immediately if the engine is too slow for the speed
            period = 1 / self.speed if self.speed else 0.0
            self._next_step_at = max(self._next_step_at + period, time.monotonic())
            with contextlib.suppress(AppError):  # the error has paused the run and is in the status
                self._step()

    def end_jobs(self, error: AppError | None = None) -> None:
        """End every job, with its result so far or with the error."""
        while self._jobs:
            job = self._jobs.popleft()
            if isinstance(job, ForkJob):
                job.end(error)
            elif error:
                job.future.set_exception(error)
            else:
                job.end(len(self.current.full_log))

    def _advance_fork(self, job: ForkJob) -> None:
        """Advance the fork by a record, or end it."""
        try:
            self._check_log_size()
            with self._engine_lock:
                has_more = job.advance()
        except AppError as error:
            job.end(error)
            has_more = False
            self._fail(error)
        self.unfinished = self.current.engine.num_unfinished()
        if not has_more and job in self._jobs:
            self._jobs.remove(job)
        if not has_more:
            self._on_change()

    def _advance_job(self, job: StepJob) -> None:
        """Advance the job by a step, or end it."""
        log = self.current.full_log
        is_stale = job.performed == 0 and job.expect is not None and job.expect < len(log)
        is_done = job.performed >= job.count or (job.until_prefilled and not self.current.engine.prefill_pending())
        if is_stale or is_done or not self.unfinished:
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
        is_single = self.current.engine.config.num_instances == 0  # several instances prefill in parallel
        if job.until_prefilled and is_single and record and not any(entry.phase == "prefill" for entry in record.batch):
            # The waiting sequences do not fit, and more steps would only decode the running ones to their end.
            self._jobs.remove(job)
            job.end(len(log))

    def _step(self) -> StepRecord | None:
        """Run an engine step. Returns its record, if there is one. An error pauses the run; the status shows it."""
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
            self._submit_due()
            return record
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                logger.exception("engine step failed")
                objection = getattr(error, "objection", None)
                failed = app_sentence("step.failed", error=sentence_of(error))
                refusal = AppError("internal", failed, objection)
            if self.source is None:
                self._fail(refusal)
            else:  # the failed batch was aborted; other requests continue
                self.error, self.unfinished = refusal, self.current.engine.num_unfinished()
                if self._log_error:
                    self._fail_source(self.source, refusal)
            raise refusal from None

    def _submit_due(self) -> None:
        """Submit the delayed prompts that are due, and further ones while the engine is idle."""
        while self._delayed and (self._delayed[0].after_step <= self._steps or not self.unfinished):
            delayed = self._delayed.pop(0)
            with self._writing():
                self.current.engine.submit(delayed.prompts, delayed.sampling)
            self.unfinished = self.current.engine.num_unfinished()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the engine lock. If the log cannot be written, the run is over, because the engine is ahead of it."""
        try:
            with self._engine_lock:
                yield
        except OSError as error:
            logger.error("the log cannot be written: %s", one_sentence(error))
            self._log_error = refusal_of(error)
            raise

    def _fail(self, error: AppError) -> None:
        self.mode, self.error = "paused", error
        self._on_change()

    def _check_not_forking(self) -> None:
        """Raise while a fork is replayed, since other input would change it."""
        if any(isinstance(job, ForkJob) for job in self._jobs):
            raise refuse("busy", "run.forking")

    def _check_log_size(self) -> None:
        """Enforce the limit of the log's size: captures stop at the limit, and the run ends at twice the limit."""
        if self._log_error:
            raise self._log_error
        size, limit = self.current.full_log.num_bytes, self._settings.max_log_bytes
        if size >= 2 * limit:
            raise refuse("refused", "log.long", number=size // MIB)
        if size >= limit and self.notice is None:
            self.current.engine.stop_captures()
            self.notice = (
                f"the log has passed {limit // MIB} MiB: tensors are no longer recorded; a reset starts a new log"
            )
            self._on_change()
