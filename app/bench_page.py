"""The benchmark page and what it reads: scenarios, records, and the traces that a record kept."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import flask
from flask import Response, request

from app import assets
from app.bench_records import BenchRecords
from app.bench_runs import BenchRuns
from app.errors import AppError
from app.paths import static_dir
from app.plain import to_json
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader


def blueprint(records: BenchRecords, runs: BenchRuns) -> flask.Blueprint:
    """`/bench` and the endpoints under /api/bench."""
    bench = flask.Blueprint("bench", __name__)

    @bench.get("/bench")
    def page() -> Response:
        modules = assets.modules_from(static_dir(), "js/bench/main.js")
        response = flask.make_response(flask.render_template("bench.html", modules=modules))
        response.headers["Cache-Control"] = "no-cache"
        return response

    @bench.get("/api/bench")
    def index() -> Response:
        return _json(
            {
                "scenarios": records.scenarios(),
                "records": records.all(),
                "can_run": runs.can_run,
                "keeps_records": runs.keeps_records,
            }
        )

    @bench.get("/api/bench/records/<record_id>")
    def record(record_id: str) -> Response:
        response = Response(records.content(record_id), mimetype="application/json")
        response.headers["Cache-Control"] = "no-cache"
        return response

    @bench.get("/api/bench/records/<record_id>/traces/<name>")
    def trace(record_id: str, name: str) -> Response:
        path = records.trace(record_id, name)
        response = flask.send_file(path, mimetype="application/octet-stream", conditional=True)
        response.headers["Cache-Control"] = "no-cache"
        return response

    @bench.get("/api/bench/records/<record_id>/traces/<name>/stage")
    def on_stage(record_id: str, name: str) -> Response:
        """The stage with the trace at `?step=N`, without it at the first step that only decodes."""
        path = records.trace(record_id, name)
        step = request.args.get("step", type=int)
        try:
            with TraceReader(path, verify=False) as reader:
                found = _record_of_step(reader, step) if step is not None else _first_decode(reader)
        except (OSError, TraceFormatError) as error:
            raise AppError("refused", f"the trace cannot be read: {error}") from error
        asked = {"recording": f"/api/bench/records/{record_id}/traces/{name}"}
        if found is not None:
            asked["step"] = str(found)
        response = flask.make_response(flask.redirect(f"/?{urlencode(asked)}"))
        response.headers["Cache-Control"] = "no-store"
        return response

    return bench


def _record_of_step(reader: TraceReader, step: int) -> int | None:
    """Index of the record of the engine's step `step`."""
    return next((i for i in range(len(reader)) if (r := reader.record(i)).kind == "step" and r.step == step), None)


def _first_decode(reader: TraceReader) -> int | None:
    """Index of the first record whose whole batch decodes."""
    for index in range(len(reader)):
        batch = reader.record(index).batch
        if batch and all(entry.phase == "decode" for entry in batch):
            return index
    return None


def _json(value: Any) -> Response:
    response = Response(to_json(value), mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response
