"""Selection of the session for a request: the API's own session on the requested model, or one of the page."""

from __future__ import annotations

import threading
from typing import NamedTuple

from msgspec.structs import replace

from app.ground.errors import AppError
from app.ground.settings import ApiSettings, ServerSettings
from app.models.engine_face import ServedModel
from app.models.registry import Models
from app.openai.engine import AsyncEngine
from app.openai.errors import ApiError
from app.session.closing import Closing
from app.session.session import Session
from app.session.session_manager import SessionManager
from app.transport.hub import Hub
from engine.config import ConfigError, EngineConfig
from engine.setup.resolve import resolve_for
from engine.trace.records import ModelFacts

NAME = "API"


class ServedSession(NamedTuple):
    """Session and engine that serve a request."""

    session: Session
    engine: AsyncEngine


class ApiSessions:
    """Sessions of the API, one per model, created on first use. Every method may be called from any thread."""

    def __init__(
        self, sessions: SessionManager, models: Models, settings: ServerSettings, api: ApiSettings, hub: Hub
    ) -> None:
        self._sessions, self._models, self._hub = sessions, models, hub
        self._settings, self._api = settings, api
        self._own: dict[str, ServedSession] = {}  # by model
        self._named: dict[str, ServedSession] = {}  # by session id
        self._lock = threading.Lock()

    def model(self, name: str | None) -> ServedModel:
        """Return the model of that name (None: the first). If it is not loaded, start loading it.

        Raises:
            ApiError: 404, no model has that name.
            AppError: `loading`, the model is not loaded yet.
        """
        if name is not None and not self._models.knows(name):
            names = ", ".join(served.name for served in self._models.all())
            raise ApiError(
                f"this server has no model {name[:200]!r}; it has {names}", "model", status=404, code="model_not_found"
            )
        with self._models.lease(name, wait=0) as lease:  # no wait, which would block one of few worker threads
            return lease.model

    def session_of_model(self, name: str | None) -> ServedSession:
        """Return the API's session on a model, created if there is none.

        Raises:
            AppError: `loading`, or the session cannot be created.
        """
        with self._lock:  # otherwise concurrent requests create two sessions
            known = self._models.find(name).name
            served = self._own.get(known)
            if served is None or served.session.is_closed:
                with self._models.lease(known, wait=0) as lease:
                    config = lease.model.with_pool(self._config(known))
                session = self._sessions.create_api(config, NAME, known)
                served = self._own[known] = self._serve(session)
            return served

    def waiting(self) -> list[tuple[str, dict[str, int]]]:
        """Return the model of each engine that serves the API, with the number of waiting requests by client."""
        served = [*tuple(self._own.values()), *tuple(self._named.values())]  # no lock: it is held for seconds
        return [(one.session.model_name, one.engine.status()["waiting"]) for one in served if not one.session.is_closed]

    def resolved(self, facts: ModelFacts) -> EngineConfig | None:
        """Return the resolved settings of the API's current or future session on a model; None if they are invalid."""
        served = self._own.get(facts.name)
        session = None if served is None or served.session.is_closed else served.session
        config = session.config if session is not None else self._config(facts.name)
        try:
            return resolve_for(config, facts).config
        except ConfigError:
            return None

    def _config(self, name: str) -> EngineConfig:
        config = self._settings.config_of(name)
        return replace(config, private=True) if self._api.is_private else config

    def close_if_idle(self, name: str) -> None:
        """Close the API's session on a model if it is idle."""
        with self._lock:
            served = self._own.get(name)
            if served is not None and not served.engine.num_active and not served.session.has_work:
                del self._own[name]
                self._sessions.remove(served.session, Closing("unloaded"))

    def session_by_id(self, session_id: str, model: str | None) -> ServedSession:
        """Return a session of the page.

        Raises:
            ApiError: no session has that id, or the session is on another model, is driven by a lesson or a class, or
                is not private although the server requires that.
        """
        with self._lock:
            try:
                session = self._sessions.get(session_id)
            except AppError as error:
                raise ApiError(error.message, "theater", status=404, code="theater_not_found") from error
            if model is not None and model != session.model_name:
                raise ApiError(f"session {session_id[:40]} is on {session.model_name}, not on {model[:80]}", "model")
            if session.in_lesson or session.is_lab:
                raise ApiError("a lesson or a class drives this session; choose another", "theater", status=409)
            if self._api.is_private and not session.config.private:
                raise ApiError("this server requires private sessions, and that session is not private", "theater")
            for served in (*self._own.values(), *self._named.values()):
                if served.session is session:
                    return served
            self._named = {i: one for i, one in self._named.items() if not one.session.is_closed}
            served = self._named[session_id] = self._serve(session)
            return served

    def _serve(self, session: Session) -> ServedSession:
        engine = AsyncEngine(self._hub.call, session.wake, self._api.max_waiting)
        session.serve(engine)
        return ServedSession(session, engine)
