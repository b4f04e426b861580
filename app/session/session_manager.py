"""Sessions of a server: creation within a limit, eviction of unused ones, and read-only sessions that show a log."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable

from app.ground.errors import AppError, refuse
from app.ground.settings import ServerSettings
from app.models.engine_face import OwnTiers, ServedModel
from app.models.registry import Models
from app.session.broadcast import Emit
from app.session.closing import Closing
from app.session.engine_lock import EngineLock, LabLock
from app.session.log_session import LogSession, LogSessions
from app.session.run import Run
from app.session.session import Session
from engine.config import EngineConfig
from engine.trace.records import Machine

CLOSE_SECONDS = 5.0  # timeout for current steps when the server shuts down
logger = logging.getLogger(__name__)
AnySession = Session | LogSession


class SessionManager:
    """Live sessions by id, and log sessions."""

    def __init__(
        self,
        models: Models,
        settings: ServerSettings,
        emit: Emit,
        observe: Callable[[Run], object] = lambda run: None,
    ) -> None:
        """Set up the manager. `observe` is called with each run on its thread, before its first record."""
        self._models, self._settings, self._emit = models, settings, emit
        self._observe = observe
        self._logs: list[LogSessions] = []
        self._close_callbacks: list[Callable[[], None]] = []
        self.engine_lock = EngineLock()  # shared by everything that computes
        self._sessions: dict[str, Session] = {}
        self._being_built = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._janitor = threading.Thread(target=self._run_janitor, name="janitor", daemon=True)
        self._janitor.start()

    def create(self, config: EngineConfig, name: str, model: str | None = None, own: OwnTiers | None = None) -> Session:
        """Create a session.

        Args:
            model: name of the model; None: the server's first.
            own: tiers of the session's runs; None: those of the server.

        Raises:
            AppError: `too_many_theaters`; `refused` for an invalid configuration, or if there is no model; `loading`
                while the model is loading; `not_found` for an unknown model.
        """
        with self._models.lease(model):  # before another session is evicted
            return self._create(config, name, model, own)

    def create_lab(self, config: EngineConfig, name: str, model: str, settings: ServerSettings) -> Session:
        """Create a follower's session. It does not count towards the limit of sessions. Its steps have low priority.

        The caller limits the number of labs.

        Raises:
            AppError: as `create`, except `too_many_theaters`.
        """
        with self._models.lease(model):
            if self._closed.is_set():
                raise AppError("refused", Closing("shutdown").sentence)
            return self._build(config, name, model, settings, self.engine_lock.labs)

    def create_api(self, config: EngineConfig, name: str, model: str) -> Session:
        """Create a session for the OpenAI-compatible API. It does not count towards the limit and evicts no session.

        Raises:
            AppError: as `create`, except `too_many_theaters`.
        """
        with self._models.lease(model):
            if self._closed.is_set():
                raise AppError("refused", Closing("shutdown").sentence)
            session = self._build(config, name, model, self._settings, self.engine_lock)
            session.is_api = True
            return session

    def _create(self, config: EngineConfig, name: str, model: str | None, own: OwnTiers | None) -> Session:
        limit = self._settings.max_theaters
        with self._lock:
            if self._closed.is_set():
                raise AppError("refused", Closing("shutdown").sentence)
            evicted = self._evict_idle() if self._num_counted >= limit else None
            if self._num_counted >= limit:
                raise refuse("too_many_theaters", "run.all_used", limit=limit)
            self._being_built += 1
        if evicted is not None:
            evicted.close(Closing("displaced"))
        try:
            return self._build(config, name, model, self._settings, self.engine_lock, own)
        finally:
            with self._lock:
                self._being_built -= 1

    def _build(
        self,
        config: EngineConfig,
        name: str,
        model: str | None,
        settings: ServerSettings,
        engine_lock: EngineLock | LabLock,
        own: OwnTiers | None = None,
    ) -> Session:
        session_id = secrets.token_urlsafe(9)
        session = Session(
            session_id, name, config, model, self._models, settings, engine_lock, self._emit, self._detach,
            self._observe, own,
        )  # fmt: skip
        with self._lock:
            if not session.is_closed:  # its thread may have failed already
                self._sessions[session_id] = session
        return session

    @property
    def _num_counted(self) -> int:
        """Return the number of sessions that count towards the limit. The caller holds the lock."""
        return sum(session.is_counted for session in self._sessions.values()) + self._being_built

    def get(self, session_id: str) -> Session:
        """Return the session.

        Raises:
            AppError: `unknown_theater`; `refused` if it is a log session, which takes no commands.
        """
        session = self._sessions.get(session_id)
        if session is None and (logs := self._logs_of(session_id)):
            raise refuse("refused", "run.only_shown", what=logs.what)
        if session is None:
            raise refuse("unknown_theater", "run.unknown", session_id=session_id[:40])
        return session

    def watch(self, session_id: str) -> AnySession:
        """Return the live session or log session with an id, to be joined and read.

        Raises:
            AppError: `unknown_theater`, `not_found`; `refused` if the recording's file cannot be read.
        """
        logs = None if session_id in self._sessions else self._logs_of(session_id)
        return logs.get(session_id) if logs else self.get(session_id)

    def add_logs(self, logs: LogSessions) -> None:
        """Add log sessions, which are closed with the live ones."""
        self._logs.append(logs)

    def is_log_session(self, session_id: str) -> bool:
        """Return whether the id belongs to a log session, open or not."""
        return self._logs_of(session_id) is not None

    def _logs_of(self, session_id: str) -> LogSessions | None:
        return next((logs for logs in self._logs if logs.owns(session_id)), None)

    def all(self) -> list[Session]:
        """Return all live sessions, oldest first."""
        with self._lock:
            return list(self._sessions.values())

    def measured_machine(self, model: ServedModel, wait: float = 1.0, *, interrupt: bool = False) -> Machine:
        """Return the machine of a model with its peak rates. The first call measures them, holding the engine lock.

        Args:
            wait: maximum seconds to wait for the engine lock.
            interrupt: measure between two steps even if a session is running.

        Raises:
            AppError: `busy`.
        """
        if model.machine.roofs is not None:
            return model.machine
        is_running = not interrupt and any(session.is_running for session in self.all())
        if is_running or not self.engine_lock.acquire(wait):
            raise refuse("busy", "machine.busy")
        try:
            return model.measured_machine()
        finally:
            self.engine_lock.release()

    def forget_viewer(self, sid: str) -> None:
        """Remove a disconnected client from all sessions."""
        for session in self.all():
            session.leave(sid)
        for logs in self._logs:
            logs.forget_viewer(sid)

    @property
    def num_viewers(self) -> int:
        """Number of viewers of all live sessions."""
        return sum(session.num_viewers for session in self.all())

    def close(self) -> int:
        """Close all sessions in parallel, delete their logs, and end their recordings.

        Returns the number of sessions still computing after CLOSE_SECONDS; they end with the process.
        """
        self._closed.set()
        self._models.close()
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.begin_close(Closing("shutdown"))
        end = time.monotonic() + CLOSE_SECONDS
        still_computing = sum(not session.wait_closed(max(0.0, end - time.monotonic())) for session in sessions)
        self._janitor.join()
        for logs in self._logs:
            logs.close(Closing("shutdown"))
        for callback in self._close_callbacks:
            callback()
        return still_computing

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` after all sessions are closed."""
        self._close_callbacks.append(callback)

    def close_idle(self) -> None:
        """Close the sessions that have been idle for `idle_seconds`, except the API's session of the first model."""
        limit = self._settings.idle_seconds
        for session in self.all():
            is_permanent = session.is_api and session.model_name == self._models.first.name
            if not is_permanent and session.is_idle and time.monotonic() - session.last_used >= limit:
                self.remove(session, Closing("unused"))

    def _evict_idle(self) -> Session | None:
        """Remove and return the longest idle session, if idle for `reclaim_seconds`. The caller holds the lock."""
        before = time.monotonic() - self._settings.reclaim_seconds
        idle = [t for t in self._sessions.values() if t.is_counted and t.is_idle and t.last_used <= before]
        if not idle:
            return None
        return self._sessions.pop(min(idle, key=lambda t: t.last_used).session_id)

    def remove(self, session: Session, why: Closing) -> None:
        """Close a session and notify its viewers of the reason."""
        if self._detach(session):
            session.close(why)

    def _detach(self, session: Session) -> bool:
        """Remove a session from the table. Returns whether it was there."""
        with self._lock:
            return self._sessions.pop(session.session_id, None) is not None

    def _run_janitor(self) -> None:
        while not self._closed.wait(min(30.0, self._settings.idle_seconds / 4)):
            try:
                self.close_idle()
            except Exception:
                logger.exception("closing idle sessions")
