"""`/prompts`: a file of requests comes in, and the report about it goes out. Nothing of it is kept."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import flask
from flask import Request, Response

from app.ground import routing
from app.ground.errors import AppError
from app.ground.routing import Route
from app.page.sheets import SHEETS
from app.prompts.words import words
from engine.prompts.policies import policies
from engine.system.host import child_environment
from engine.trace.telling import languages

EXAMPLE = Path(__file__).parent / "example.jsonl"  # made up: an agent that mends a bug, with three breaks
MAX_BYTES = 64 << 20
MAX_SECONDS = 120.0
POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')
_playing = threading.Lock()  # one file at a time


def form(context: object, request: Request) -> Response:
    """The page that asks for a file."""
    return _form(request, "", 200)


def report(context: object, request: Request) -> Response:
    """The report about a posted file.

    Raises:
        AppError: `busy` while another file is played.
    """
    request.max_content_length = MAX_BYTES
    given, policy = request.files.get("file"), request.form.get("policy", "vllm")
    is_example = "example" in request.form
    name = EXAMPLE.name if is_example else (given.filename if given else "")
    if not name or policy not in policies():
        return _form(request, "no_file", 400)
    if not _playing.acquire(blocking=False):
        raise AppError("busy", "another file is being played; send it again in a moment")
    try:
        with tempfile.TemporaryDirectory(prefix="kvtheater-prompts-") as folder:
            file, page = Path(folder) / "requests", Path(folder) / "page.html"
            if given is not None and not is_example:
                given.save(file)
            options = [
                f"--policy={policy}",
                f"--html={page}",
                f"--lang={_language(request)}",
                f"--name={name}",
            ]
            program = [sys.executable, "-m", "app", "prompts", str(EXAMPLE if is_example else file), *options]
            try:
                done = subprocess.run(
                    program,
                    env=child_environment(),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=MAX_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return _form(request, "too_long", 413)
            if not page.is_file():
                return _form(request, "", 422, done.stderr.decode(errors="replace").removeprefix("kvtheater: ")[:300])
            text = page.read_text(encoding="utf-8")
    finally:
        _playing.release()
    found = POLICY.search(text)
    assert found is not None
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": found[1]}
    return Response(text, mimetype="text/html", headers=headers)


def _form(request: Request, refusal: str, status: int, reason: str = "") -> Response:
    say = words(_language(request))
    text = flask.render_template(
        "prompts_form.html",
        say=say,
        policies=policies().values(),
        refusal=say(f"form.{refusal}", megabytes=MAX_BYTES >> 20, seconds=int(MAX_SECONDS)) if refusal else reason,
        sheets=SHEETS.links("documentation"),
    )
    # under `no-referrer` a browser sends a form with the origin "null", which the guard refuses
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
    return Response(text, status=status, mimetype="text/html", headers=headers)


def _language(request: Request) -> str:
    known = languages()
    given = request.values.get("lang", "")
    return given if given in known else request.accept_languages.best_match(list(known)) or "en"


ROUTES = [
    Route("GET", "/prompts", form),
    Route("POST", "/prompts", report),
]


def blueprint() -> flask.Blueprint:
    """The page of prompts."""
    return routing.blueprint("prompts", "", None, ROUTES)
