"""Read-only HTTP endpoints for facts, records, arrays and the trace file of a session."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import flask
import msgspec
from flask import Request, Response
from msgspec import Struct

from app import __version__
from app.ground import routing
from app.ground.errors import AppError, refuse, refused
from app.ground.plain import to_json
from app.ground.routing import Route, json_answer
from app.log_index.comparisons import Comparisons
from app.log_index.derived_files import LogTables
from app.log_index.questions import LogQuestions, saved_questions
from app.log_index.what_if import WhatIfs
from app.models.registry import Models
from app.page.onefile import TooLarge, export_page
from app.server.api_answers import HealthAnswer, ListedSession, SessionsAnswer
from app.session.run import OpenLog
from app.session.session_manager import SessionManager
from engine.trace import codec
from engine.trace.log import TraceReader
from engine.trace.records import Capture, Header, StepRecord

MSGPACK = "application/msgpack"
MAX_RECORDS = 256  # records of a request for layers
MAX_ARRAYS = 8 << 20  # bytes of arrays after which a response has no further record


class ApiContext(NamedTuple):
    """Context of the endpoints."""

    sessions: SessionManager
    models: Models
    comparisons: Comparisons
    questions: LogQuestions
    what_ifs: WhatIfs


def health(context: ApiContext, request: Request) -> Response:
    """Return the server's version, and the loading status of its model."""
    answer: HealthAnswer = {"ok": True, "version": __version__, "model": context.models.first.status()}
    return json_answer(answer)


def list_sessions(context: ApiContext, request: Request) -> Response:
    """Return the sessions."""
    listed: list[ListedSession] = []
    for session in context.sessions.all():
        run = session.run
        with suppress(AppError):  # the session has been closed meanwhile
            listed.append(
                {
                    "theater": session.session_id,
                    "name": session.name,
                    "model": session.model_name,
                    "is_lab": session.is_lab,
                    "config": run.config,
                    "status": session.status(),
                    "summary": run.summary(),
                }
            )
    answer: SessionsAnswer = {"theaters": listed}
    return json_answer(answer)


def compare(context: ApiContext, request: Request) -> Response:
    """Compare two runs: `?a=…&b=…`."""
    names = [request.args.get(name, "") for name in ("a", "b")]
    if not all(names):
        raise AppError("bad_request", "give two runs to compare: ?a=…&b=…, each a session or a recording")
    return json_answer(context.comparisons.answer(*names))


def list_questions(context: ApiContext, request: Request) -> Response:
    """Return the saved queries over a log."""
    return json_answer(saved_questions())


def query(context: ApiContext, request: Request, session_id: str) -> Response:
    """Return the rows of one SQL statement on a run's log: `?sql=…`."""
    run = _run(context, request, session_id)
    return _with_epoch(json_answer(context.questions.answer(run, request.args.get("sql", ""))), run)


def what_if(context: ApiContext, request: Request, session_id: str) -> Response:
    """Return the effect of another pool size: `?times=2`."""
    run = _run(context, request, session_id)
    try:
        times = float(request.args.get("times", "2"))
    except ValueError as error:
        raise AppError("bad_request", "times must be a number") from error
    return _with_epoch(json_answer(context.what_ifs.answer(run, times)), run)


def header(context: ApiContext, request: Request, session_id: str) -> Response:
    """Return a run's header."""
    run = _run(context, request, session_id)
    return _value(request, run, run.header, Header)


def record(context: ApiContext, request: Request, session_id: str, index: int) -> Response:
    """Return a record."""
    run = _run(context, request, session_id)
    with run.reading() as log:
        _check_index(log, index)
        return _value(request, run, log.record_bytes(index), StepRecord)


def capture(context: ApiContext, request: Request, session_id: str, index: int) -> Response:
    """Return a record's arrays."""
    run = _run(context, request, session_id)
    return _value(request, run, _capture_bytes(run, index), Capture)


def layer_arrays(context: ApiContext, request: Request, session_id: str, index: int, layer: int) -> Response:
    """Return the arrays of one layer of one record."""
    run = _run(context, request, session_id)
    found = codec.decode(_capture_bytes(run, index), Capture)
    for arrays in found.layers:
        if arrays.layer == layer:
            return _value(request, run, codec.encode(arrays), type(arrays))
    present = ", ".join(str(a.layer) for a in found.layers) or "none"
    raise refuse("not_found", "record.layer", index=index, layer=layer, present=present)


def layer_of_records(context: ApiContext, request: Request, session_id: str, layer: int) -> Response:
    """Return the arrays of one layer of several records: `?records=3,7,9`."""
    run = _run(context, request, session_id)
    wanted = _indices(request.args.get("records", ""))
    arrays: list[bytes | None] = []
    size = 0
    with run.reading() as log:
        for index in wanted:
            _check_index(log, index)
            payload = log.capture_bytes(index)
            arrays.append(layer_bytes(payload, layer) if payload else None)
            size += len(arrays[-1] or b"")
            if size >= MAX_ARRAYS:
                break
    answer = msgspec.msgpack.encode({"records": wanted[: len(arrays)], "arrays": arrays})
    return _with_epoch(Response(answer, mimetype=MSGPACK), run)


def trace(context: ApiContext, request: Request, session_id: str) -> Response:
    """Return the current log as a `.kvtrace` file."""
    run = _run(context, request, session_id)
    reading = ExitStack()
    reading.enter_context(run.reading())  # released when the download ends
    size = run.log.num_bytes
    response = Response(run.log.file_chunks(size), mimetype="application/octet-stream")
    response.call_on_close(reading.close)
    response.content_length = size
    response.headers["Content-Disposition"] = f'attachment; filename="{session_id}-{run.epoch}.kvtrace"'
    return _with_epoch(response, run)


def export_html(context: ApiContext, request: Request, session_id: str) -> Response:
    """Return the run as one HTML file."""
    run = _run(context, request, session_id)
    with run.reading() as log:
        try:
            page = export_page(log)
        except TooLarge as error:
            raise refused(error) from error
    response = Response(page, mimetype="text/html")
    response.headers["Content-Disposition"] = f'attachment; filename="kvtheater-{session_id}.html"'
    return _with_epoch(response, run)


def not_found(context: ApiContext, request: Request, rest: str) -> Response:
    """Reject any other path below /api."""
    raise refuse("not_found", "api.none", rest=rest[:80])


_SESSION = "/theaters/<session_id>"
_LAYER = "/layers/<int(signed=True):layer>"  # signed, so that a negative index gets a JSON error too
_RECORD = f"{_SESSION}/records/<int(signed=True):index>"

ROUTES = [
    Route("GET", "/health", health),
    Route("GET", "/theaters", list_sessions),
    Route("GET", "/compare", compare),
    Route("GET", "/questions", list_questions),
    Route("GET", f"{_SESSION}/query", query),
    Route("GET", f"{_SESSION}/what_if", what_if),
    Route("GET", f"{_SESSION}/header", header),
    Route("GET", _RECORD, record),
    Route("GET", f"{_RECORD}/capture", capture),
    Route("GET", _RECORD + _LAYER, layer_arrays),
    Route("GET", _SESSION + _LAYER, layer_of_records),
    Route("GET", f"{_SESSION}/trace", trace),
    Route("GET", f"{_SESSION}/export.html", export_html),
    Route("GET", "/<path:rest>", not_found),
]


def blueprint(sessions: SessionManager, models: Models, tables: LogTables) -> flask.Blueprint:
    """Return the endpoints under /api."""
    what_ifs = WhatIfs()
    sessions.on_close(what_ifs.close)
    context = ApiContext(sessions, models, Comparisons(sessions), LogQuestions(tables), what_ifs)
    return routing.blueprint("api", "/api", context, ROUTES)


def _run(context: ApiContext, request: Request, session_id: str) -> OpenLog:
    """Return the session's current run, or the recording. Raises `stale_epoch` if the query names another epoch."""
    run = context.sessions.watch(session_id).run
    epoch = request.args.get("epoch")
    if epoch is not None and epoch != str(run.epoch):
        raise refuse("stale_epoch", "epoch.other", epoch=run.epoch, asked=epoch[:20])
    return run


def _check_index(log: TraceReader, index: int) -> None:
    if not 0 <= index < len(log):
        raise refuse("not_found", "record.none", index=index, num_log=len(log))


def _indices(text: str) -> list[int]:
    """Parse record indices such as "3,7,9"."""
    parts = text.split(",")
    if not text or len(parts) > MAX_RECORDS or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise AppError("bad_request", f"records must be at most {MAX_RECORDS} indices, as in ?records=3,7,9")
    return [int(part) for part in parts]


def _capture_bytes(run: OpenLog, index: int) -> bytes:
    with run.reading() as log:
        _check_index(log, index)
        payload = log.capture_bytes(index)
    if payload is None:
        raise refuse("not_found", "record.capture", index=index)
    return payload


def _value(request: Request, run: OpenLog, payload: bytes, kind: type[Any]) -> Response:
    wanted = request.args.get("format", "msgpack")
    if wanted == "json":
        return _with_epoch(Response(to_json(codec.decode(payload, kind)), mimetype="application/json"), run)
    if wanted != "msgpack":
        raise AppError("bad_request", f"format must be msgpack or json, not {wanted[:40]!r}")
    return _with_epoch(Response(payload, mimetype=MSGPACK), run)


def _with_epoch(response: Response, run: OpenLog) -> Response:
    response.headers["X-Epoch"] = str(run.epoch)
    response.headers["Cache-Control"] = "no-store"
    return response


class _Layers(Struct):
    layers: list[msgspec.Raw]


class _LayerIndex(Struct):
    layer: int


_layers = msgspec.msgpack.Decoder(_Layers)
_layer_index = msgspec.msgpack.Decoder(_LayerIndex)


def layer_bytes(capture: bytes, layer: int) -> bytes | None:
    """Return a layer's arrays as encoded in `capture`; None if it has no arrays of that layer.

    Returns the same bytes as decoding the capture and encoding the layer, in a third of the time.

    Raises:
        msgspec.MsgspecError: `capture` is not an encoded capture.
    """
    return next((bytes(raw) for raw in _layers.decode(capture).layers if _layer_index.decode(raw).layer == layer), None)
