"""The benchmark page and what it reads: scenarios, records, and the traces that a record kept."""

from __future__ import annotations

from typing import Any

import flask
from flask import Response

from app import assets
from app.bench_records import BenchRecords
from app.bench_runs import BenchRuns
from app.paths import static_dir
from app.plain import to_json


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

    return bench


def _json(value: Any) -> Response:
    response = Response(to_json(value), mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response
