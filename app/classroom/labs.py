"""Labs: runs of followers, beside the class's. Their number is limited; further requests wait in a queue.

    class_lab --> queue --first--> a session of one's own --left, or idle while others wait--> the next

The class's run waits for at most one step of all labs, and they use at most a sixth of the time beside it:
`app/session/engine_lock.py`. Their number is therefore limited by memory, and by how slow such a run may become.
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

MAX_LABS = 64  # of one server: each has two threads and a file
MEMORY_SHARE = 0.5  # of the memory that is free before the first lab
LOG_BYTES = 32 * MIB  # above it a lab stores no captures, above twice that no records
OWN_BYTES = 8 * MIB  # of a lab beside pool and log: engine, threads, state (5 MiB were measured, bundled model)
LEAST_SPEED = 1.0  # steps a second of each lab when all of them run
UNMEASURED = 1  # labs before a step was measured
STEPS = 8  # decode steps whose median is a step's time
LOOK_BACK = 64  # last records that are searched for them
LEFT_SECONDS = 60.0  # without a connection
IDLE_SECONDS = 180.0  # without a command or a step
EVERY = 2.0  # seconds between two rounds

logger = logging.getLogger(__name__)


def labs_most(lab_bytes: int, free_bytes: int, step_seconds: float | None) -> tuple[int, LabsWhy]:
    """Return the maximum number of labs, and the reason for it.

    Memory: labs use at most `MEMORY_SHARE` of the memory that was free before the first one. Speed: labs get
    `LABS_SHARE` of the time while the class computes, so its steps take at most 1.2 times as long. Each of n active
    labs takes LABS_SHARE / (n · step_seconds) steps a second, which must be at least `LEAST_SPEED`. The limit is
    `UNMEASURED` before a step was measured.

    Args:
        lab_bytes: pool, log and the rest of a lab.
        free_bytes: free memory before the first lab.
        step_seconds: of a decode step on this machine; None: not measured yet.
    """
    why: LabsWhy = {"by": "most", "lab_bytes": lab_bytes, "free_bytes": free_bytes, "step_seconds": step_seconds}
    most = MAX_LABS
    if (held := int(free_bytes * MEMORY_SHARE / lab_bytes)) < most:
        most, why["by"] = held, "memory"
    if step_seconds is None:
        if most > UNMEASURED:
            most, why["by"] = UNMEASURED, "unmeasured"
    elif step_seconds and (quick := max(1, int(LABS_SHARE / (LEAST_SPEED * step_seconds)))) < most:
        most, why["by"] = quick, "speed"
    return most, why


def step_seconds(run: OpenLog) -> float | None:
    """Return the median time of the last few decode steps; None without any in the last records."""
    found: list[float] = []
    log = run.full_log
    for index in range(len(log) - 1, max(-1, len(log) - 1 - LOOK_BACK), -1):
        record = log.record(index)
        if record.kind == "step" and record.batch and all(entry.phase == "decode" for entry in record.batch):
            timing = record.timing
            found.append(timing.schedule + timing.prepare + timing.forward + timing.sample)
        if len(found) == STEPS:
            break
    return statistics.median(found) if found else None


class Labs:
    """Labs of all classes of a server."""

    def __init__(
        self, sessions: SessionManager, classrooms: Classrooms, access: Access, send: Emit, settings: ServerSettings
    ) -> None:
        self._sessions, self._classrooms, self._access, self._send = sessions, classrooms, access, send
        self._settings = structs.replace(settings, max_log_bytes=min(LOG_BYTES, settings.max_log_bytes))
        self._lock = threading.RLock()  # of running labs and the queue
        self._making = threading.Lock()  # labs are created one at a time, in the order of the queue
        self._free_bytes = 0  # of memory, before the first lab
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    # Requests

    def switch(self, found: Classroom, is_on: bool) -> None:
        """Allow labs in a class, or end all of them."""
        with self._lock:
            found.labs.is_on = is_on
            if is_on and self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="labs", daemon=True)
                self._thread.start()
        if is_on:
            self._update_limit(found)
        else:
            self._end(found, found.labs.everybody(), Closing("lab_over"))
        found.news()

    def open(self, found: Classroom, key: str) -> None:
        """Create a lab for a seat, or queue the seat.

        Raises:
            AppError: `refused` if the class has no labs or nothing is on stage; errors of the creation of a run.
        """
        if not found.labs.is_on:
            raise refusal("refused", "lab.closed")
        if self._stage(found) is None:
            raise refusal("refused", "lab.no_stage")
        with self._lock:
            if not found.labs.wait(key):
                return
        self._fill(found, key)
        if not found.labs.is_on:  # closed meanwhile
            self._end(found, [key], Closing("lab_over"))

    def close(self, found: Classroom, key: str) -> None:
        """Close a seat's lab."""
        self._end(found, [key], Closing("lab_over"))
        self._fill(found)

    def pause_all(self, found: Classroom) -> None:
        """Pause all labs: their output may reveal the answer to the open question."""
        for _, session_id in found.labs.runs():
            if session := self._session(session_id):
                session.pause()

    def end(self, found: Classroom) -> None:
        """End the labs of a class that is over."""
        self.switch(found, False)

    def stop(self) -> None:
        """Stop the thread; the server ends."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    # Inside

    def _watch(self) -> None:
        while True:
            self._wake.wait(EVERY)
            self._wake.clear()
            if self._closed:
                return
            for found in self._classrooms.all():
                try:
                    if found.labs.is_on:
                        self.reclaim_idle(found)
                except Exception:
                    logger.exception("labs of a class")

    def reclaim_idle(self, found: Classroom) -> None:
        """Reclaim idle labs while others wait, and give them to the next in the queue."""
        self._update_limit(found)
        seats = {seat.key: seat for seat in found.seats()}
        now = time.monotonic()
        gone: list[str] = []
        unused: list[tuple[float, str]] = []  # (unused since, key)
        for key, session_id in found.labs.runs():
            seat, session = seats.get(key), self._session(session_id)
            if seat is None or session is None:
                gone.append(key)
            elif session_id == found.session:
                continue  # shown to the class
            elif not seat.is_here and now - seat.left_at >= LEFT_SECONDS:
                unused.append((seat.left_at, key))
            elif not session.has_work and now - session.last_used >= IDLE_SECONDS:
                unused.append((session.last_used, key))
        with self._lock:
            for key in found.labs.queue():
                if key not in seats or (not seats[key].is_here and now - seats[key].left_at >= LEFT_SECONDS):
                    found.labs.leave(key)
            here = [key for key in found.labs.queue() if seats[key].is_here]
        self._end(found, gone, Closing("lab_over"))
        wanted = len(here) - self._num_free(found)
        self._end(found, [key for _, key in sorted(unused)[: max(0, wanted)]], Closing("lab_idle"))
        self._fill(found)

    def _num_free(self, found: Classroom) -> int:
        """Return the number of free lab places."""
        return max(0, found.labs.most - sum(len(one.labs.keys()) for one in self._classrooms.all()))

    def _fill(self, found: Classroom, requester: str | None = None) -> None:
        """Create labs for the first seats of the queue. An error for `requester` is raised.

        While other labs are being created, `requester` does not wait; it is notified later.
        """
        failure: AppError | None = None
        moved = False
        if not self._making.acquire(blocking=requester is None):
            self._wake.set()
            return
        with ExitStack() as ending:
            ending.callback(self._making.release)
            here = {seat.key for seat in found.seats() if seat.is_here}
            while found.labs.is_on and (source := self._stage(found)) is not None and self._num_free(found):
                with self._lock:
                    key = found.labs.take(here)
                if key is None:
                    break
                moved = True
                try:
                    self._make(found, key, source)
                except BaseException as error:  # free the place after any error
                    with self._lock:
                        found.labs.drop(key)
                    if not isinstance(error, AppError):
                        raise
                    failure = error if key == requester else failure
                self._tell(found, [key])
        self._tell(found, found.labs.queue() if moved else [])  # their positions have changed
        found.news(everybody=False)
        if failure is not None:
            raise failure

    def _make(self, found: Classroom, key: str, source: Session) -> None:
        session = self._sessions.create_lab(source.config, found.title, source.model_name, self._settings)
        session.max_pool_bytes = pool_bytes(source.config, source.model.facts)
        with self._lock:
            if found.labs.made(key, session.session_id):
                self._access.lab(session.session_id, Pass(found.id, key))
                return
        self._sessions.remove(session, Closing("lab_over"))  # the seat has given it up meanwhile

    def _end(self, found: Classroom, keys: list[str], why: Closing) -> None:
        """Close the labs of seats, and remove waiting seats from the queue."""
        ending: list[Session] = []
        for key in keys:
            with self._lock:
                session_id = found.labs.drop(key)
            session = self._session(session_id or "")
            if session_id is not None:
                self._access.lab(session_id, None)
            if session is not None and session_id != found.session:
                session.begin_close(why)
                ending.append(session)
        for session in ending:  # in parallel: each may wait for the engine lock
            self._sessions.remove(session, why)
        self._tell(found, keys)
        if keys:
            found.news(everybody=False)

    def _tell(self, found: Classroom, keys: list[str]) -> None:
        """Send these seats their own state."""
        wanted = set(keys)
        for seat in found.seats():
            if seat.key in wanted and seat.sids:
                self._send("class_mine", found.mine(seat), list(seat.sids))

    def _update_limit(self, found: Classroom) -> None:
        """Update the maximum number of labs, from the run on stage."""
        source = self._stage(found)
        if source is None:
            return  # unchanged: a recording is on stage, and labs continue
        try:
            model = source.model
        except AppError:
            return  # the run is over and its model unloaded
        if not any(one.labs.keys() for one in self._classrooms.all()):
            self._free_bytes = model.free_bytes
        lab_bytes = pool_bytes(source.config, model.facts) + 2 * self._settings.max_log_bytes + OWN_BYTES
        most, why = labs_most(lab_bytes, self._free_bytes, self._measured(found, source))
        if (most, why) != (found.labs.most, found.labs.why):
            found.labs.most, found.labs.why = most, why
            found.news(everybody=False)

    def _measured(self, found: Classroom, source: Session) -> float | None:
        """Return the seconds of a step: of the class's run, else of a lab, else as before."""
        labs = (self._session(session_id) for _, session_id in found.labs.runs())
        for session in (source, *(lab for lab in labs if lab is not None)):
            try:
                run = session.run
                with run.reading():
                    seconds = step_seconds(run)
            except AppError:
                continue  # it was reset just now
            if seconds is not None:
                return seconds
        return found.labs.why["step_seconds"]

    def _stage(self, found: Classroom) -> Session | None:
        """Return the live run on stage."""
        return self._session(found.session or "")

    def _session(self, session_id: str) -> Session | None:
        try:
            return self._sessions.get(session_id)
        except AppError:
            return None
