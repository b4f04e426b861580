"""HTTP API of the library: list, read, change, delete, upload, download."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, TypedDict
from urllib.parse import quote

import flask
import msgspec
from flask import Request, Response
from msgspec import Meta
from werkzeug.exceptions import ClientDisconnected

from app.ground import routing
from app.ground.errors import AppError, refuse, refused
from app.ground.routing import Route, json_answer
from app.ground.settings import MIB, ServerSettings
from app.recordings.exports import FORMATS, SUFFIXES, export, unavailable
from app.recordings.library import Library
from app.recordings.playback import Playbacks
from app.recordings.repair import Finding
from app.recordings.shelf import SUFFIX, Entry
from app.session.closing import Closing
from app.session.messages import Message, RecordingName, Tags, parse
from engine.trace.codec import TraceFormatError
from engine.trace.export import ExportError


class RecordingsAnswer(TypedDict):
    """Response of /api/recordings."""

    recordings: list[Entry]
    findings: list[Finding]
    can_keep: bool
    max_bytes: int
    exports: dict[str, str | None]  # missing package by format; None: available


CHUNK = 1 << 20  # bytes of an upload read at a time


class Change(Message, frozen=True, kw_only=True):
    """Editable fields of a recording; omitted ones are unchanged."""

    name: Annotated[RecordingName, Meta(min_length=1)] | None = None
    tags: Tags | None = None
    notes: Annotated[str, Meta(max_length=4000)] | None = None


class RecordingsContext(NamedTuple):
    """Context of the endpoints."""

    library: Library
    playbacks: Playbacks
    settings: ServerSettings


def index(context: RecordingsContext, request: Request) -> Response:
    """Return the recordings, whether the library can store more, and the export formats."""
    answer: RecordingsAnswer = {
        "recordings": context.library.entries(),
        "findings": context.library.findings,
        "can_keep": context.library.can_keep,
        "max_bytes": context.settings.max_recording_bytes,
        "exports": {to: unavailable().get(to) for to in FORMATS},
    }
    return json_answer(answer)


def one(context: RecordingsContext, request: Request, recording_id: str) -> Response:
    """Return a recording's entry."""
    return json_answer(context.library.entry(recording_id))


def upload(context: RecordingsContext, request: Request) -> Response:
    """Store a `.kvtrace` file sent as the body."""
    request.max_content_length = context.settings.max_recording_bytes
    size = request.content_length
    if size is None:
        raise AppError("bad_request", "an upload needs a Content-Length header")
    if size > context.settings.max_recording_bytes:
        raise _too_large(size, context.settings.max_recording_bytes)
    name, tags = _name_and_tags(request)
    with context.library.upload_file(size) as file:
        _receive(request, file, size)
        try:
            entry = context.library.add_upload(Path(file.name), name, tags)
        except TraceFormatError as error:
            raise AppError("bad_request", f"this is not a recording: {error}") from error
    response = json_answer(entry)
    response.status_code = 201
    response.headers["Location"] = f"recordings/{entry.id}"
    return response


def change(context: RecordingsContext, request: Request, recording_id: str) -> Response:
    """Change name, tags or notes. The JSON body has only the changed fields."""
    try:
        given = msgspec.json.decode(request.get_data())
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise AppError("bad_request", f"the body is not JSON: {str(error)[:200]}") from error
    wanted = parse(given, Change)
    return json_answer(context.library.change(recording_id, wanted.name, wanted.tags, wanted.notes))


def delete(context: RecordingsContext, request: Request, recording_id: str) -> Response:
    """Delete a recording."""
    context.library.delete(recording_id)
    context.playbacks.drop(recording_id, Closing("deleted"))
    return json_answer({"deleted": recording_id})


def download(context: RecordingsContext, request: Request, recording_id: str) -> Response:
    """Return the file. Range requests are supported."""
    entry = context.library.entry(recording_id)
    response = flask.send_file(
        context.library.path(recording_id), mimetype="application/octet-stream", conditional=True, etag=True
    )
    response.headers["Content-Disposition"] = _attachment(entry, SUFFIX)
    response.headers["Cache-Control"] = "no-cache"
    return response


def export_for(context: RecordingsContext, request: Request, recording_id: str, to: str) -> Response:
    """Return the output of `kvtheater trace export` as one file, for a growing recording with its current records."""
    entry = context.library.entry(recording_id)
    wanted = next((one for one in FORMATS if one == to), None)
    if wanted is None:
        raise refuse("not_found", "export.unknown", to=to[:40], known=", ".join(FORMATS))
    try:
        exported = export(context.library.path(recording_id), wanted)
    except ExportError as error:
        raise refused(error) from error
    except TraceFormatError as error:
        raise refuse("refused", "recording.unreadable", error=error) from error
    mimetype = "application/json" if wanted == "perfetto" else "application/zip"
    response = flask.send_file(exported, mimetype=mimetype)
    response.headers["Content-Disposition"] = _attachment(entry, SUFFIXES[wanted])
    response.headers["Cache-Control"] = "no-store"
    return response


ROUTES = [
    Route("GET", "", index),
    Route("GET", "/<recording_id>", one),
    Route("POST", "", upload),
    Route("PATCH", "/<recording_id>", change),
    Route("DELETE", "/<recording_id>", delete),
    Route("GET", "/<recording_id>/trace", download),
    Route("GET", "/<recording_id>/export/<to>", export_for),
]


def blueprint(library: Library, playbacks: Playbacks, settings: ServerSettings) -> flask.Blueprint:
    """Return the endpoints under /api/recordings."""
    return routing.blueprint("recordings", "/api/recordings", RecordingsContext(library, playbacks, settings), ROUTES)


def _receive(request: Request, file: IO[bytes], size: int) -> None:
    """Copy the request's body to the file in chunks."""
    received = 0
    try:
        while chunk := request.stream.read(min(CHUNK, size - received)):
            received += len(chunk)
            file.write(chunk)
        file.flush()
    except ClientDisconnected:
        pass
    except OSError as error:
        raise refuse("refused", "recording.not_kept", reason=error.strerror or error) from error
    if received < size:
        raise AppError("bad_request", f"the upload ended after {received} of {size} bytes")


def _name_and_tags(request: Request) -> tuple[str, list[str]]:
    """Return name and tags of an upload from its query: `name`, which may be a file name, and any number of `tag`."""
    name = os.path.basename(request.args.get("name", "")).removesuffix(SUFFIX).strip()
    given: dict[str, Any] = {"tags": request.args.getlist("tag"), **({"name": name} if name else {})}
    wanted = parse(given, Change)
    return wanted.name or "recording", wanted.tags or []


def _attachment(entry: Entry, suffix: str) -> str:
    """Return the Content-Disposition header with the recording's name."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", entry.name).strip("-.") or entry.id
    return f"attachment; filename=\"{plain}{suffix}\"; filename*=UTF-8''{quote(entry.name + suffix, safe='')}"


def _too_large(size: int, limit: int) -> AppError:
    return refuse("refused", "recording.size", size=size // MIB, limit=limit // MIB)
