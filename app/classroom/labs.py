"""Labs: runs of followers beside the class's run. Their number is limited; further requests wait in a queue.

    class_lab --> queue --first--> the follower's session --left, or idle while others wait--> the next

A step of the class's run waits for at most one step of a lab, and all labs together use at most a sixth of the time
(`app/session/engine_lock.py`). The number of labs is limited by memory, and by the minimum speed of a lab.
"""

from __future__ import annotations

import logging
import statistics
import threading
import time
from contextlib import ExitStack

from msgspec import structs

from app.classroom.access import Access
from app.classroom.answers import LabsWhy
from app.classroom.classroom import Classroom
from app.classroom.classrooms import Classrooms
from app.classroom.refusing import refusal
from app.ground.callers import Pass
from app.ground.errors import AppError
from app.ground.settings import MIB, ServerSettings
from app.models.pool_bytes import pool_bytes
from app.session.broadcast import Emit
from app.session.closing import Closing
from app.session.engine_lock import LABS_SHARE
from app.session.run import OpenLog
from app.session.session import Session
from app.session.session_manager import SessionManager

MAX_LABS = 64  # of one server, since each has two threads and a file
MEMORY_SHARE = 0.5  # of the memory that is free before the first lab
LOG_BYTES = 32 * MIB  # size of a lab's log above which no captures are stored; above twice this, no records
OVERHEAD_BYTES = 8 * MIB  # of a lab besides pool and log: engine, threads, state (5 MiB measured, bundled model)
MIN_SPEED = 1.0  # steps a second of each lab when all of them run
UNMEASURED = 1  # maximum number of labs before a step is measured
STEPS = 8  # number of decode steps of which the median is taken
MAX_RECORDS = 64  # last records that are searched for these steps
LEFT_SECONDS = 60.0  # without a connection
IDLE_SECONDS = 180.0  # without a command or a step
INTERVAL = 2.0  # seconds between two rounds

logger = logging.getLogger(__name__)


def max_labs(lab_bytes: int, free_bytes: int, step_seconds: float | None) -> tuple[int, LabsWhy]:
    """Return the maximum number of labs, and the reason for it.

    Memory: labs use at most `MEMORY_SHARE` of the memory that was free before the first one. Speed: labs get
    `LABS_SHARE` of the time while the class computes, so the class's steps take at most 1.2 times as long. Each of n
    active labs runs LABS_SHARE / (n · step_seconds) steps a second, which must be at least `MIN_SPEED`. The limit is
    `UNMEASURED` until a step is measured.

    Args:
        lab_bytes: pool, log and overhead of a lab.
        free_bytes: free memory before the first lab.
        step_seconds: time of a decode step on this machine; None: not measured yet.
    """
    reason: LabsWhy = {"by": "most", "lab_bytes": lab_bytes, "free_bytes": free_bytes, "step_seconds": step_seconds}
    limit = MAX_LABS
    if (fitting := int(free_bytes * MEMORY_SHARE / lab_bytes)) < limit:
        limit, reason["by"] = fitting, "memory"
    if step_seconds is None:
        if limit > UNMEASURED:
            limit, reason["by"] = UNMEASURED, "unmeasured"
    elif step_seconds and (fast_enough := max(1, int(LABS_SHARE / (MIN_SPEED * step_seconds)))) < limit:
        limit, reason["by"] = fast_enough, "speed"
    return limit, reason


def step_seconds(run: OpenLog) -> float | None:
    """Return the median time of the last decode steps, or None if the last `MAX_RECORDS` records have none."""
    times: list[float] = []
    log = run.full_log
    for index in range(len(log) - 1, max(-1, len(log) - 1 - MAX_RECORDS), -1):
        record = log.record(index)
        if record.kind == "step" and record.batch and all(entry.phase == "decode" for entry in record.batch):
            timing = record.timing
            times.append(timing.schedule + timing.prepare + timing.forward + timing.sample)
        if len(times) == STEPS:
            break
    return statistics.median(times) if times else None


class Labs:
    """Labs of all classes of a server."""

    def __init__(
        self, sessions: SessionManager, classrooms: Classrooms, access: Access, send: Emit, settings: ServerSettings
    ) -> None:
        self._sessions, self._classrooms, self._access, self._send = sessions, classrooms, access, send
        self._settings = structs.replace(settings, max_log_bytes=min(LOG_BYTES, settings.max_log_bytes))
        self._lock = threading.RLock()  # guards running labs and the queue
        self._creating = threading.Lock()  # labs are created one at a time, in the order of the queue
        self._free_bytes = 0  # free memory before the first lab
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    # Requests

    def switch(self, classroom: Classroom, is_on: bool) -> None:
        """Allow labs in a class, or end all of them."""
        with self._lock:
            classroom.labs.is_on = is_on
            if is_on and self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="labs", daemon=True)
                self._thread.start()
        if is_on:
            self._update_limit(classroom)
        else:
            self._end(classroom, classroom.labs.all_keys(), Closing("lab_over"))
        classroom.notify()

    def open(self, classroom: Classroom, key: str) -> None:
        """Create a lab for a seat, or queue the seat.

        Raises:
            AppError: `refused` if the class has no labs or nothing is on stage; errors of creating a session.
        """
        if not classroom.labs.is_on:
            raise refusal("refused", "lab.closed")
        if self._stage(classroom) is None:
            raise refusal("refused", "lab.no_stage")
        with self._lock:
            if not classroom.labs.wait(key):
                return
        self._fill(classroom, key)
        if not classroom.labs.is_on:  # closed meanwhile
            self._end(classroom, [key], Closing("lab_over"))

    def close(self, classroom: Classroom, key: str) -> None:
        """Close a seat's lab."""
        self._end(classroom, [key], Closing("lab_over"))
        self._fill(classroom)

    def pause_all(self, classroom: Classroom) -> None:
        """Pause all labs, because their output may reveal the answer to the open question."""
        for _, session_id in classroom.labs.runs():
            if session := self._session(session_id):
                session.pause()

    def end(self, classroom: Classroom) -> None:
        """End the labs of a class that is over."""
        self.switch(classroom, False)

    def stop(self) -> None:
        """Stop the thread when the server shuts down."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    # Inside

    def _watch(self) -> None:
        while True:
            self._wake.wait(INTERVAL)
            self._wake.clear()
            if self._closed:
                return
            for classroom in self._classrooms.all():
                try:
                    if classroom.labs.is_on:
                        self.reclaim_idle(classroom)
                except Exception:
                    logger.exception("reclaiming idle labs failed")

    def reclaim_idle(self, classroom: Classroom) -> None:
        """Close idle labs while seats wait, and create labs for the first seats of the queue."""
        self._update_limit(classroom)
        seats = {seat.key: seat for seat in classroom.seats()}
        now = time.monotonic()
        removed: list[str] = []
        unused: list[tuple[float, str]] = []  # (unused since, key)
        for key, session_id in classroom.labs.runs():
            seat, session = seats.get(key), self._session(session_id)
            if seat is None or session is None:
                removed.append(key)
            elif session_id == classroom.session:
                continue  # shown to the class
            elif not seat.is_here and now - seat.left_at >= LEFT_SECONDS:
                unused.append((seat.left_at, key))
            elif not session.has_work and now - session.last_used >= IDLE_SECONDS:
                unused.append((session.last_used, key))
        with self._lock:
            for key in classroom.labs.queue():
                if key not in seats or (not seats[key].is_here and now - seats[key].left_at >= LEFT_SECONDS):
                    classroom.labs.leave(key)
            here = [key for key in classroom.labs.queue() if seats[key].is_here]
        self._end(classroom, removed, Closing("lab_over"))
        wanted = len(here) - self._num_free(classroom)
        self._end(classroom, [key for _, key in sorted(unused)[: max(0, wanted)]], Closing("lab_idle"))
        self._fill(classroom)

    def _num_free(self, classroom: Classroom) -> int:
        """Return the number of free lab places."""
        return max(0, classroom.labs.max_labs - sum(len(one.labs.keys()) for one in self._classrooms.all()))

    def _fill(self, classroom: Classroom, requester: str | None = None) -> None:
        """Create labs for the first seats of the queue. Raises an error that concerns `requester`.

        If labs are already being created, a call with a `requester` returns without waiting; it is notified later.
        """
        failure: AppError | None = None
        moved = False
        if not self._creating.acquire(blocking=requester is None):
            self._wake.set()
            return
        with ExitStack() as ending:
            ending.callback(self._creating.release)
            here = {seat.key for seat in classroom.seats() if seat.is_here}
            while classroom.labs.is_on and (source := self._stage(classroom)) is not None and self._num_free(classroom):
                with self._lock:
                    key = classroom.labs.take_next(here)
                if key is None:
                    break
                moved = True
                try:
                    self._create(classroom, key, source)
                except BaseException as error:  # free the place after any error
                    with self._lock:
                        classroom.labs.drop(key)
                    if not isinstance(error, AppError):
                        raise
                    failure = error if key == requester else failure
                self._send_seat_states(classroom, [key])
        self._send_seat_states(classroom, classroom.labs.queue() if moved else [])  # their positions have changed
        classroom.notify(everybody=False)
        if failure is not None:
            raise failure

    def _create(self, classroom: Classroom, key: str, source: Session) -> None:
        session = self._sessions.create_lab(source.config, classroom.title, source.model_name, self._settings)
        session.max_pool_bytes = pool_bytes(source.config, source.model.facts)
        with self._lock:
            if classroom.labs.assign(key, session.session_id):
                self._access.assign_lab(session.session_id, Pass(classroom.id, key))
                return
        self._sessions.remove(session, Closing("lab_over"))  # the seat has given up its place meanwhile

    def _end(self, classroom: Classroom, keys: list[str], why: Closing) -> None:
        """Close the labs of seats, and remove waiting seats from the queue."""
        ending: list[Session] = []
        for key in keys:
            with self._lock:
                session_id = classroom.labs.drop(key)
            session = self._session(session_id or "")
            if session_id is not None:
                self._access.assign_lab(session_id, None)
            if session is not None and session_id != classroom.session:
                session.begin_close(why)
                ending.append(session)
        for session in ending:  # in parallel: each may wait for the engine lock
            self._sessions.remove(session, why)
        self._send_seat_states(classroom, keys)
        if keys:
            classroom.notify(everybody=False)

    def _send_seat_states(self, classroom: Classroom, keys: list[str]) -> None:
        """Send these seats their own state."""
        wanted = set(keys)
        for seat in classroom.seats():
            if seat.key in wanted and seat.sids:
                self._send("class_mine", classroom.mine(seat), list(seat.sids))

    def _update_limit(self, classroom: Classroom) -> None:
        """Update the maximum number of labs, from the run on stage."""
        source = self._stage(classroom)
        if source is None:
            return  # a recording is on stage; labs continue
        try:
            model = source.model
        except AppError:
            return  # the run is over and its model unloaded
        if not any(one.labs.keys() for one in self._classrooms.all()):
            self._free_bytes = model.free_bytes
        lab_bytes = pool_bytes(source.config, model.facts) + 2 * self._settings.max_log_bytes + OVERHEAD_BYTES
        limit, reason = max_labs(lab_bytes, self._free_bytes, self._measured(classroom, source))
        if (limit, reason) != (classroom.labs.max_labs, classroom.labs.limit_reason):
            classroom.labs.max_labs, classroom.labs.limit_reason = limit, reason
            classroom.notify(everybody=False)

    def _measured(self, classroom: Classroom, source: Session) -> float | None:
        """Return the seconds of a step of the class's run, else of a lab, else the previous value."""
        labs = (self._session(session_id) for _, session_id in classroom.labs.runs())
        for session in (source, *(lab for lab in labs if lab is not None)):
            try:
                run = session.run
                with run.reading():
                    seconds = step_seconds(run)
            except AppError:
                continue  # the run was reset meanwhile
            if seconds is not None:
                return seconds
        return classroom.labs.limit_reason["step_seconds"]

    def _stage(self, classroom: Classroom) -> Session | None:
        """Return the live run on stage."""
        return self._session(classroom.session or "")

    def _session(self, session_id: str) -> Session | None:
        try:
            return self._sessions.get(session_id)
        except AppError:
            return None
