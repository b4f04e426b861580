"""`/prompts`: answers a posted file of requests with the report about it. Nothing of the file is stored."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import flask
from flask import Request, Response
from werkzeug.exceptions import RequestEntityTooLarge

from app.ground import routing
from app.ground.routing import Route
from app.page.sheets import SHEETS
from app.prompts.tokenizers import MAX_NAME
from app.prompts.words import Words, words
from engine.model.shipped import BUNDLED
from engine.prompts.policies import policies
from engine.system.host import child_environment
from engine.trace.telling import languages

EXAMPLE = Path(__file__).parent / "example.jsonl"  # made up: an agent that mends a bug, with three breaks
MAX_BYTES = 64 << 20
MAX_SECONDS = 120.0
POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')
PATHS = re.compile(r"(?<![\w.])~?/[^\s:,;'\"]+")  # of this machine, which a visitor is not shown
_playing = threading.Lock()  # one file at a time


class PromptsContext(NamedTuple):
    """State that the endpoints use: tokenizers by name, the first one in place of none; "": the bundled model's."""

    tokenizers: Mapping[str, str]


def form(context: PromptsContext, request: Request) -> Response:
    """The page that asks for a file."""
    return _form(context, request, "", 200)


def report(context: PromptsContext, request: Request) -> Response:
    """The report about a posted file."""
    request.max_content_length = MAX_BYTES
    try:
        given, policy = request.files.get("file"), request.form.get("policy", "vllm")
    except RequestEntityTooLarge:
        return _form(context, request, "too_large", 413)
    is_example = "example" in request.form
    name = EXAMPLE.name if is_example else (given.filename if given else "")
    if not name or policy not in policies():
        return _form(context, request, "no_file", 400)
    tokenizer = request.form.get("tokenizer", next(iter(context.tokenizers)))
    if tokenizer not in context.tokenizers:
        return _form(context, request, "no_tokenizer", 400, tokenizer=tokenizer[:MAX_NAME])
    options = [f"--policy={policy}", f"--lang={_language(request)}", f"--name={name}"]
    if model := context.tokenizers[tokenizer]:
        options.append(f"--tokenizer={tokenizer}={model}")
    if not _playing.acquire(blocking=False):
        return _form(context, request, "busy", 409)
    try:
        with EXAMPLE.open("rb") if is_example else tempfile.TemporaryFile() as file:  # without a name: gone in any case
            if given is not None and not is_example:
                given.save(file)
                file.seek(0)
            done = _played(file.fileno(), *options)
    except subprocess.TimeoutExpired:
        return _form(context, request, "too_long", 413)
    finally:
        _playing.release()
    text = done.stdout.decode()
    found = POLICY.search(text)
    if found is None:
        reason = done.stderr.decode(errors="replace").removeprefix("kvtheater: ")
        return _form(context, request, "", 422, PATHS.sub("…", reason)[:300])
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": found[1]}
    return Response(text, mimetype="text/html", headers=headers)


def _played(file: int, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "app", "prompts", f"/dev/fd/{file}", "--html=-", *options],
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=MAX_SECONDS,
        check=False,
        pass_fds=[file],
    )


def _form(
    context: PromptsContext, request: Request, refusal: str, status: int, reason: str = "", tokenizer: str = ""
) -> Response:
    say = words(_language(request))
    text = flask.render_template(
        "prompts_form.html",
        say=say,
        policies=policies().values(),
        tokenizers=[(name, name if model else say("bundled")) for name, model in context.tokenizers.items()],
        refusal=_sentence(say, refusal, tokenizer) if refusal else reason,
        sheets=SHEETS.links("documentation"),
    )
    # under `no-referrer` a browser sends a form with the origin "null", which the guard refuses
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
    return Response(text, status=status, mimetype="text/html", headers=headers)


def _sentence(say: Words, refusal: str, tokenizer: str) -> str:
    return say(f"form.{refusal}", megabytes=MAX_BYTES >> 20, seconds=int(MAX_SECONDS), tokenizer=tokenizer)


def _language(request: Request) -> str:
    known = languages()
    try:
        given = request.values.get("lang", "")
    except RequestEntityTooLarge:
        given = ""
    return given if given in known else request.accept_languages.best_match(list(known)) or "en"


ROUTES = [
    Route("GET", "/prompts", form),
    Route("POST", "/prompts", report),
]


def blueprint(tokenizers: Mapping[str, str]) -> flask.Blueprint:
    """The page of prompts. `tokenizers`: folders and hub names, by name, beside the bundled model's."""
    return routing.blueprint("prompts", "", PromptsContext({**tokenizers, BUNDLED: ""}), ROUTES)
