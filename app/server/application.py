"""Assembly of the application: Flask for pages and endpoints, Socket.IO for sessions, and access control for both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import flask
from flask import Flask, Response

from app.bench import page as bench_page
from app.bench.records import BenchRecords
from app.bench.runs import BenchRuns
from app.classroom import exports
from app.classroom import pages as classroom_pages
from app.classroom.access import Access
from app.classroom.classrooms import Classrooms
from app.classroom.events import ClassEvents
from app.classroom.labs import Labs
from app.classroom.store import Store
from app.documentation import pages as documentation
from app.ground import routing
from app.ground.malloc_trim import TRIM
from app.ground.paths import static_dir, templates_dir
from app.ground.settings import ServerSettings, is_loopback
from app.lessons import pages as lesson_pages
from app.lessons.catalogue import Catalogue
from app.lessons.lesson_sessions import LessonSessions
from app.lessons.recorded import recorded_lessons
from app.log_index import endpoints as log_index_api
from app.log_index.derived_files import LogIndexes, LogTables
from app.metrics import endpoint as metrics_endpoint
from app.metrics.client_queues import ClientQueueRequests
from app.metrics.http import HttpRequests
from app.metrics.observer import SPANS, Metrics
from app.models.registry import Models
from app.openai import endpoints as openai
from app.openai.keys import ApiKeys
from app.openai.paths import is_api
from app.openai.sessions import ApiSessions
from app.page import assets, door, words
from app.page import modules as page_modules
from app.page import sheets as page_sheets
from app.prompts import page as prompts_page
from app.recordings import endpoints
from app.recordings.library import open_library
from app.recordings.playback import Playbacks
from app.relay.relays import Relays
from app.scale import page as scale_page
from app.scale import roofline as scale_roofline
from app.server import api, api_models, dispatch, events, pages
from app.server.first_use import prepare_types
from app.server.lesson_events import LessonEvents
from app.server.security import Guard, identifier, refused_body
from app.session.log_session import AttachedSession
from app.session.session_manager import SessionManager
from app.transport.access_log import AccessLog
from app.transport.connection import RequestObserver
from app.transport.server import Transport

if TYPE_CHECKING:
    from app.metrics.spans import RequestSpans
    from engine.observe.monitor.attachment import Attachment


def _answer_error(error: Exception) -> Response:
    environ = flask.request.environ
    if is_api(flask.request.path):
        return openai.answer_error(error)
    if not door.wants_page(environ):
        return routing.answer_error(error)
    found = door.refused_page(environ, *routing.refusal_and_status(error))
    return Response(found.body, found.status, found.headers)


def create_app(
    models: Models,
    settings: ServerSettings,
    traces: Sequence[Path] = (),
    access_log: AccessLog | None = None,
    spans: RequestSpans | None = None,
    attachment: Attachment | None = None,
) -> Flask:
    """Return the application. The caller must close `app.extensions["kvtheater"]`, its SessionManager, at the end.

    Args:
        models: the server's models.
        settings: the server's settings.
        traces: trace files to show in addition to the library.
        access_log: log of the HTTP requests.
        spans: receiver of each finished request to a model.
        attachment: a monitored server, which is closed with the sessions.

    Raises:
        BusError: the message queue of the settings cannot be reached.
    """
    prepare_types()
    app = Flask("kvtheater", static_folder=str(static_dir()), template_folder=str(templates_dir()))
    app.config["MAX_CONTENT_LENGTH"] = settings.max_message_bytes
    requests = HttpRequests()
    observers: list[RequestObserver] = [requests] if access_log is None else [requests, access_log]
    transport = Transport(app, settings.limits, settings.max_message_bytes, refused_body, observers)
    library = open_library(settings, traces)
    transport.clients.on_freed(TRIM.freed)
    emit = transport.clients.emit
    runs = BenchRuns(settings.data_dir, emit, live=models.is_live)
    metrics = Metrics(spans.export if spans else None)
    app.extensions[SPANS] = spans
    sessions = SessionManager(models, settings, emit, metrics.observe)
    playbacks = Playbacks(library, emit)
    sessions.add_logs(runs)
    if attachment is not None:
        sessions.add_logs(AttachedSession(attachment, emit))
    sessions.add_logs(playbacks)
    sessions.on_close(library.close)
    app.extensions["kvtheater.library"] = library
    app.extensions["kvtheater"] = sessions
    app.extensions["kvtheater.transport"] = transport
    lessons = LessonSessions(sessions, Catalogue(settings.lessons), recorded_lessons(settings.recorded_lessons), models)
    classrooms = Classrooms(emit)
    access = Access(classrooms)
    labs = Labs(sessions, classrooms, access, emit, settings)
    app.extensions["kvtheater.classrooms"] = classrooms
    store = Store(settings.data_dir, settings.class_store)
    app.extensions["kvtheater.labs"] = labs
    app.extensions["kvtheater.ending"] = (labs.stop, classrooms.close, store.stop)  # ended before the sessions
    dispatch.register(
        transport.clients,
        events.Events(sessions, emit, models, settings, access, library, runs),
        LessonEvents(lessons, classrooms),
        ClassEvents(access, classrooms, sessions, lessons, labs, store, settings, emit),
        access,
        sessions,
    )
    models.on_change(lambda status: transport.clients.emit_to_all("model", status))
    app.register_blueprint(classroom_pages.blueprint(classrooms))
    app.register_blueprint(exports.blueprint(classrooms, store, sessions))
    app.register_blueprint(pages.blueprint(settings.config_of(models.first.name), models.first))
    app.register_blueprint(endpoints.blueprint(library, playbacks, settings))
    app.register_blueprint(bench_page.blueprint(BenchRecords(runs.folder), runs))
    app.register_blueprint(scale_roofline.blueprint(sessions, models, settings.data_dir, settings.presets))
    app.register_blueprint(scale_page.blueprint(settings.data_dir, settings.presets))
    app.register_blueprint(documentation.blueprint())
    app.register_blueprint(prompts_page.blueprint(settings.tokenizers, settings.traffic))
    app.register_blueprint(words.blueprint())
    app.register_blueprint(lesson_pages.blueprint(lessons))
    api_sessions = ApiSessions(sessions, models, settings, settings.api, transport.hub) if settings.api else None
    if api_sessions is not None and settings.api is not None:
        app.extensions["kvtheater.api"] = api_sessions
        app.register_blueprint(openai.blueprint(api_sessions, models, ApiKeys(settings.api.keys, settings.api.default)))
    app.register_blueprint(api_models.blueprint(sessions, models, settings, api_sessions))
    log_indexes = LogIndexes(settings.data_dir)
    sessions.on_close(log_indexes.close)
    app.register_blueprint(log_index_api.blueprint(sessions, log_indexes))
    tables = LogTables(settings.data_dir)
    sessions.on_close(tables.close)
    app.register_blueprint(api.blueprint(sessions, models, tables))
    queues = [ClientQueueRequests(api_sessions.waiting, settings.api.clients)] if api_sessions and settings.api else []
    app.register_blueprint(metrics_endpoint.blueprint(metrics, requests, *queues))
    app.register_error_handler(Exception, _answer_error)

    identify = identifier(settings.token, classrooms.read_pass)
    if settings.message_queue is not None:
        app.extensions["kvtheater.relays"] = Relays(settings.message_queue, transport.hub, transport.clients, identify)
    host = settings.host if settings.token is None else None
    keys = settings.api.keys if settings.api is not None else {}
    files = assets.StaticFiles(app.wsgi_app, static_dir(), page_modules.PAGE.find, page_sheets.SHEETS.find)
    app.wsgi_app = Guard(  # type: ignore[method-assign]
        files,
        host,
        identify,
        keys,
        root_path=settings.root_path,
        frame_token=(settings.token or "") if is_loopback(settings.host) else "",
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.api.allowed_origins if settings.api is not None else (),
    )
    return app
