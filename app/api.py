"""The HTTP endpoints: facts, records, arrays and the trace file of a theater, all read-only."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import flask
import msgspec
from flask import Response, request
from werkzeug.exceptions import HTTPException

from app import __version__
from app.engine_face import ServedModel
from app.errors import HTTP_STATUS, AppError, refusal_of
from app.fork_compare import Comparisons
from app.layer_bytes import layer_bytes
from app.museum import EXHIBITS
from app.onefile import TooLarge, export_page
from app.plain import to_json
from app.presets import PRESETS
from app.run import OpenLog
from app.settings import ServerSettings
from app.stage import Stage
from engine.config import EngineConfig, SamplingParams
from engine.options.payload import options_payload
from engine.trace import codec
from engine.trace.log import TraceReader
from engine.trace.records import Capture, Header, StepRecord

MSGPACK = "application/msgpack"
MOST_RECORDS = 256  # whose layers may be asked for at once
MOST_ARRAYS = 8 << 20  # bytes after which an answer takes no further record
CHUNK = 1 << 18  # bytes of a download at a time


def blueprint(stage: Stage, model: ServedModel | None, settings: ServerSettings) -> flask.Blueprint:
    """The endpoints under /api."""
    api = flask.Blueprint("api", __name__, url_prefix="/api")
    comparisons = Comparisons(stage)

    @api.get("/health")
    def health() -> Response:
        return _json({"ok": True, "version": __version__})

    @api.get("/model")
    def model_facts() -> Response:
        return _json(
            {
                "version": __version__,
                "live": model is not None,
                "model": model and model.facts,
                "tokenizer": model and model.tokenizer_facts,
                "kv_bytes_per_token": model and model.kv_bytes_per_token,
                "config": settings.config,
                "sampling": SamplingParams(),
                "options": options_payload(engine=EngineConfig, sampling=SamplingParams),
                "presets": PRESETS,
                "museum": EXHIBITS,
                "machine": model and model.machine,
                "limits": {
                    "max_theaters": settings.max_theaters,
                    "max_prompts": settings.max_prompts,
                    "max_prompt_bytes": settings.max_prompt_bytes,
                    "max_pool_bytes": settings.max_pool_bytes,
                },
            }
        )

    @api.get("/machine")
    def machine() -> Response:
        if model is None:
            raise AppError("not_found", "there is no live model here, so nothing to measure its machine for")
        if model.machine.roofs is None and any(_computes(theater.status()) for theater in stage.all()):
            raise AppError("busy", "the machine is measured while no theater runs: pause it and ask again")
        return _json(model.measured_machine())

    @api.get("/theaters")
    def theaters() -> Response:
        return _json(
            {
                "theaters": [
                    {"theater": t.theater_id, "name": t.name, "config": t.run.engine.config, "status": t.status()}
                    for t in stage.all()
                ]
            }
        )

    @api.get("/compare")
    def compare() -> Response:
        names = [request.args.get(name, "") for name in ("a", "b")]
        if not all(names):
            raise AppError("bad_request", "two runs are compared: ?a=…&b=…, each a theater or a recording")
        return _json(comparisons.answer(*names))

    @api.get("/theaters/<theater_id>/header")
    def header(theater_id: str) -> Response:
        run = _run(stage, theater_id)
        return _value(run, run.header, Header)

    @api.get("/theaters/<theater_id>/records/<int(signed=True):index>")
    def record(theater_id: str, index: int) -> Response:
        run = _run(stage, theater_id)
        with run.reading() as log:
            _check_index(log, index)
            return _value(run, log.record_bytes(index), StepRecord)

    @api.get("/theaters/<theater_id>/records/<int(signed=True):index>/capture")
    def capture(theater_id: str, index: int) -> Response:
        run = _run(stage, theater_id)
        return _value(run, _capture_bytes(run, index), Capture)

    @api.get("/theaters/<theater_id>/records/<int(signed=True):index>/layers/<int(signed=True):layer>")
    def layer_arrays(theater_id: str, index: int, layer: int) -> Response:
        run = _run(stage, theater_id)
        found = codec.decode(_capture_bytes(run, index), Capture)
        for arrays in found.layers:
            if arrays.layer == layer:
                return _value(run, codec.encode(arrays), type(arrays))
        present = ", ".join(str(a.layer) for a in found.layers) or "none"
        raise AppError("not_found", f"record {index} has no arrays of layer {layer}; it has those of layers: {present}")

    @api.get("/theaters/<theater_id>/layers/<int(signed=True):layer>")
    def layer_of_records(theater_id: str, layer: int) -> Response:
        run = _run(stage, theater_id)
        wanted = _indices(request.args.get("records", ""))
        arrays: list[bytes | None] = []
        size = 0
        with run.reading() as log:
            for index in wanted:
                _check_index(log, index)
                payload = log.capture_bytes(index)
                arrays.append(layer_bytes(payload, layer) if payload else None)
                size += len(arrays[-1] or b"")
                if size >= MOST_ARRAYS:
                    break
        answer = msgspec.msgpack.encode({"records": wanted[: len(arrays)], "arrays": arrays})
        return _of_run(Response(answer, mimetype=MSGPACK), run)

    @api.get("/theaters/<theater_id>/trace")
    def trace(theater_id: str) -> Response:
        run = _run(stage, theater_id)
        reading = ExitStack()
        reading.enter_context(run.reading())  # let go when the download ends
        size = run.log.num_bytes
        response = Response(run.log.file_chunks(size), mimetype="application/octet-stream")
        response.call_on_close(reading.close)
        response.content_length = size
        response.headers["Content-Disposition"] = f'attachment; filename="{theater_id}-{run.epoch}.kvtrace"'
        return _of_run(response, run)

    @api.get("/theaters/<theater_id>/export.html")
    def export_html(theater_id: str) -> Response:
        run = _run(stage, theater_id)
        with run.reading() as log:
            try:
                page = export_page(log)
            except TooLarge as error:
                raise AppError("refused", str(error)) from error
        response = Response(page, mimetype="text/html")
        response.headers["Content-Disposition"] = f'attachment; filename="kvtheater-{theater_id}.html"'
        return _of_run(response, run)

    @api.get("/<path:rest>")
    def nothing(rest: str) -> Response:
        raise AppError("not_found", f"there is no /api/{rest[:80]}")

    return api


def answer_error(error: Exception) -> Response:
    """The error handler of the application: JSON for every error."""
    if isinstance(error, HTTPException):
        status = error.code or 500
        code = "not_found" if status == 404 else "bad_request" if status < 500 else "internal"
        message = error.description or error.name
    elif refusal := refusal_of(error):
        code, message, status = refusal.code, refusal.message, HTTP_STATUS[refusal.code]
    else:
        flask.current_app.logger.error("%s %s", request.method, request.path, exc_info=error)
        code, message, status = "internal", "the server made a mistake; its terminal says more", 500
    response = _json({"error": {"code": code, "message": message}})
    response.status_code = status
    return response


def _computes(status: dict[str, Any]) -> bool:
    """Whether a theater takes steps by itself now."""
    return bool(status["mode"] == "running" and status["unfinished"])


def _run(stage: Stage, theater_id: str) -> OpenLog:
    """The theater's present run, or the recording; `stale_epoch` when the address asks for another."""
    run = stage.watch(theater_id).run
    asked = request.args.get("epoch")
    if asked is not None and asked != str(run.epoch):
        raise AppError("stale_epoch", f"the theater is at epoch {run.epoch}, not {asked[:20]}")
    return run


def _check_index(log: TraceReader, index: int) -> None:
    if not 0 <= index < len(log):
        raise AppError("not_found", f"there is no record {index}; the log has {len(log)}, counted from 0")


def _indices(text: str) -> list[int]:
    """Record indices of "3,7,9"."""
    parts = text.split(",")
    if not text or len(parts) > MOST_RECORDS or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise AppError("bad_request", f"records is a list of at most {MOST_RECORDS} indices, as in ?records=3,7,9")
    return [int(part) for part in parts]


def _capture_bytes(run: OpenLog, index: int) -> bytes:
    with run.reading() as log:
        _check_index(log, index)
        payload = log.capture_bytes(index)
    if payload is None:
        raise AppError("not_found", f"record {index} has no capture")
    return payload


def _value(run: OpenLog, payload: bytes, kind: type[Any]) -> Response:
    wanted = request.args.get("format", "msgpack")
    if wanted == "json":
        return _of_run(Response(to_json(codec.decode(payload, kind)), mimetype="application/json"), run)
    if wanted != "msgpack":
        raise AppError("bad_request", f"format is msgpack or json, not {wanted[:40]!r}")
    return _of_run(Response(payload, mimetype=MSGPACK), run)


def _of_run(response: Response, run: OpenLog) -> Response:
    response.headers["X-Epoch"] = str(run.epoch)
    response.headers["Cache-Control"] = "no-store"
    return response


def _json(value: Any) -> Response:
    response = Response(to_json(value), mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response
