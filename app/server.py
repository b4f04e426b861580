"""The application: Flask for pages and endpoints, Socket.IO for the theaters, a guard in front of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import flask
from flask import Flask, Response
from flask_socketio import SocketIO

from app import api, assets, bench_page, events, plotly_asset
from app.bench_records import BenchRecords
from app.bench_runs import BenchRuns
from app.engine_face import ServedModel
from app.paths import static_dir, templates_dir
from app.recordings import endpoints
from app.recordings.library import open_library
from app.security import Guard
from app.settings import ServerSettings
from app.stage import Stage


def create_app(
    model: ServedModel | None, settings: ServerSettings, shown: Sequence[Path] = ()
) -> tuple[Flask, SocketIO]:
    """The application for one model. Close `app.extensions["kvtheater"]`, its Stage, at the end.

    model None: there is nothing live, only recordings. `shown`: trace files to show beside those of the library.
    """
    app = Flask("kvtheater", static_folder=str(static_dir()), template_folder=str(templates_dir()))
    app.config["MAX_CONTENT_LENGTH"] = settings.max_message_bytes
    socketio = SocketIO(
        app,
        async_mode="threading",
        serializer="msgpack",
        manage_session=False,
        cors_allowed_origins=[],  # the guard has looked at the origin already
        max_http_buffer_size=settings.max_message_bytes,
    )
    library = open_library(settings, shown)
    emit = _emitter(socketio)
    runs = BenchRuns(settings.data_dir, emit, live=model is not None)
    stage = Stage(model.build if model else None, settings, emit, library, runs)
    app.extensions["kvtheater"] = stage
    events.register(socketio, stage, model, settings)
    app.register_blueprint(endpoints.blueprint(stage, settings))
    app.register_blueprint(bench_page.blueprint(BenchRecords(runs.folder), runs))
    app.register_blueprint(api.blueprint(stage, model, settings))
    app.register_error_handler(Exception, api.answer_error)

    @app.get("/")
    def page() -> Response:
        modules = assets.modules_from(static_dir(), "js/main.js")
        response = flask.make_response(flask.render_template("index.html", modules=modules))
        response.headers["Cache-Control"] = "no-cache"
        return response

    @app.get("/vendor/plotly.min.js")
    def plotly() -> Response:
        return plotly_asset.answer()

    @app.get("/favicon.ico")
    def icon() -> Response:
        return Response(status=204)

    app.wsgi_app = Guard(assets.StaticFiles(app.wsgi_app, static_dir()), settings)  # type: ignore[method-assign]
    return app, socketio


def _emitter(socketio: SocketIO) -> Callable[..., None]:
    def emit(event: str, data: dict[str, Any], sid: str, acknowledged: Callable[[], None] | None = None) -> None:
        """Puts the packet on the client's own queue, from which its writer thread sends it."""
        callback = (lambda *_: acknowledged()) if acknowledged else None
        socketio.emit(event, data, to=sid, callback=callback)

    return emit
