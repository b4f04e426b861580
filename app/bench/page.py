"""Benchmark page and its data: scenarios, records, and the records' traces."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode

import flask
from flask import Request, Response

from app.bench.records import BenchAnswer, BenchRecords
from app.bench.runs import BenchRuns
from app.ground import routing
from app.ground.errors import refuse
from app.ground.routing import Route, json_answer
from app.page import modules as page_modules
from app.page import sheets as page_sheets
from engine.bench.code import step_code_hash
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader

ROOT = "../" * 6  # path of the page relative to that of `open_trace`


class BenchContext(NamedTuple):
    """Context of the endpoints."""

    records: BenchRecords
    runs: BenchRuns


def page(context: BenchContext, request: Request) -> Response:
    """Return the benchmark page."""
    modules = page_modules.PAGE.preloads("js/bench/main.js")
    sheets = page_sheets.SHEETS.links("bench")
    response = flask.make_response(flask.render_template("bench.html", modules=modules, sheets=sheets))
    response.headers["Cache-Control"] = "no-cache"
    return response


def index(context: BenchContext, request: Request) -> Response:
    """Return the scenarios and records."""
    answer: BenchAnswer = {
        "scenarios": context.records.scenarios(),
        "records": context.records.all(),
        "can_run": context.runs.can_run,
        "keeps_records": context.runs.keeps_records,
        "code": step_code_hash(),
    }
    return json_answer(answer)


def record(context: BenchContext, request: Request, record_id: str) -> Response:
    """Return the file of a record."""
    response = Response(context.records.content(record_id), mimetype="application/json")
    response.headers["Cache-Control"] = "no-cache"
    return response


def trace(context: BenchContext, request: Request, record_id: str, name: str) -> Response:
    """Return a trace of a record."""
    path = context.records.trace(record_id, name)
    response = flask.send_file(path, mimetype="application/octet-stream", conditional=True)
    response.headers["Cache-Control"] = "no-cache"
    return response


def open_trace(context: BenchContext, request: Request, record_id: str, name: str) -> Response:
    """Redirect to the page with the trace at `?step=N`, by default at the first step that only decodes."""
    path = context.records.trace(record_id, name)
    step = request.args.get("step", type=int)
    try:
        with TraceReader(path, verify=False) as reader:
            found = _record_of_step(reader, step) if step is not None else _first_decode(reader)
    except (OSError, TraceFormatError) as error:
        raise refuse("refused", "bench.trace", error=error) from error
    query = {"recording": f"api/bench/records/{record_id}/traces/{name}"}
    if found is not None:
        query["step"] = str(found)
    response = flask.make_response(flask.redirect(f"{ROOT}?{urlencode(query)}"))
    response.headers["Cache-Control"] = "no-store"
    return response


ROUTES = [
    Route("GET", "/bench", page),
    Route("GET", "/api/bench", index),
    Route("GET", "/api/bench/records/<record_id>", record),
    Route("GET", "/api/bench/records/<record_id>/traces/<name>", trace),
    Route("GET", "/api/bench/records/<record_id>/traces/<name>/stage", open_trace),
]


def blueprint(records: BenchRecords, runs: BenchRuns) -> flask.Blueprint:
    """Return `/bench` and the endpoints under /api/bench."""
    return routing.blueprint("bench", "", BenchContext(records, runs), ROUTES)


def _record_of_step(reader: TraceReader, step: int) -> int | None:
    """Return the record index of the engine's step `step`, or None."""
    return next((i for i in range(len(reader)) if (r := reader.record(i)).kind == "step" and r.step == step), None)


def _first_decode(reader: TraceReader) -> int | None:
    """Return the index of the first record that only decodes, or None."""
    for index in range(len(reader)):
        batch = reader.record(index).batch
        if batch and all(entry.phase == "decode" for entry in batch):
            return index
    return None
