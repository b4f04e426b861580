"""`/prompts`: returns a report about a posted file of requests, which is not stored.

`/prompts/traffic` shows the report about a file given at the server's start, and updates it while the file grows.
"""

from __future__ import annotations

import re
import secrets
import shutil
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
from app.ground.errors import refuse
from app.ground.paths import templates_dir
from app.ground.routing import Route
from app.page.sheets import SHEETS
from app.prompts.tokenizers import MAX_NAME
from app.prompts.traffic import Traffic
from app.prompts.words import Words, words
from engine.model.shipped import BUNDLED
from engine.prompts.policies import policies
from engine.system.host import child_environment
from engine.trace.messages import languages

EXAMPLE = Path(__file__).parent / "example.jsonl"  # synthetic session of an agent that fixes a bug
MAX_BYTES = 64 << 20
MAX_SECONDS = 120.0
POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')
MAIN = re.compile(r"<main>.*</main>", re.DOTALL)
PATHS = re.compile(r"(?<![\w.])~?/[^\s:,;'\"]+")  # file paths of the server, which are hidden from visitors
LOW_PRIORITY = ("nice", "-n", "19") if shutil.which("nice") else ()  # reports must not delay engines and a proxy
_running = threading.Lock()  # allows one report at a time


class PromptsContext(NamedTuple):
    """Context of the endpoints."""

    tokenizers: Mapping[str, str]  # folder or hub name by name; "": the bundled model's
    traffic: Traffic | None  # reports about a growing file


def form(context: PromptsContext, request: Request) -> Response:
    """Return the page with the file input."""
    return _form(context, request, "", 200)


def report(context: PromptsContext, request: Request) -> Response:
    """Return the report about a posted file."""
    request.max_content_length = MAX_BYTES
    try:
        given, policy = request.files.get("file"), request.form.get("policy", "vllm")
    except RequestEntityTooLarge:
        return _form(context, request, "too_large", 413)
    is_example = "example" in request.form
    name = EXAMPLE.name if is_example else (given.filename if given else "")
    if not name or policy not in policies():
        return _form(context, request, "no_file", 400)
    tokenizer = _tokenizer(context, request)
    if tokenizer not in context.tokenizers:
        return _form(context, request, "no_tokenizer", 400, tokenizer=tokenizer[:MAX_NAME])
    options = _options(context, request, policy, tokenizer, name)
    if not _running.acquire(blocking=False):
        return _form(context, request, "busy", 409)
    try:
        with EXAMPLE.open("rb") if is_example else tempfile.TemporaryFile() as file:  # unnamed, so always deleted
            if given is not None and not is_example:
                given.save(file)
                file.seek(0)
            done = _run(file.fileno(), *options)
    except subprocess.TimeoutExpired:
        return _form(context, request, "too_long", 413)
    finally:
        _running.release()
    text, is_page = _outcome(done)
    if not is_page:
        return _form(context, request, "", 422, text)
    found = POLICY.search(text)
    assert found is not None
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": found[1]}
    return Response(text, mimetype="text/html", headers=headers)


def traffic(context: PromptsContext, request: Request) -> Response:
    """Return the page that shows the current report about the file given at the server's start."""
    if context.traffic is None:
        raise refuse("not_found", "traffic.none")
    say, nonce = words(_language(request)), secrets.token_hex(8)
    text = flask.render_template(
        "prompts_traffic.html",
        say=say,
        name=context.traffic.path.name,
        nonce=nonce,
        sheet=(templates_dir() / "prompts.css").read_text(encoding="utf-8"),
        policies=policies().values(),
        policy=request.args.get("policy", "vllm"),
        tokenizers=_shown(context, say),
        tokenizer=_tokenizer(context, request),
    )
    allowed = "script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'"
    policy = f"default-src 'none'; style-src 'nonce-{nonce}'; {allowed}; frame-ancestors 'none'"
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": policy, "Referrer-Policy": "same-origin"}
    return Response(text, mimetype="text/html", headers=headers)


def traffic_report(context: PromptsContext, request: Request) -> Response:
    """Return the current report about that file: 304 if the client has it, 204 while the file is empty."""
    policy, tokenizer = request.args.get("policy", "vllm"), _tokenizer(context, request)
    if context.traffic is None or policy not in policies() or tokenizer not in context.tokenizers:
        raise refuse("not_found", "report.none")
    found = context.traffic.report(_options(context, request, policy, tokenizer, context.traffic.path.name))
    if found is None:
        return Response(status=204)
    if request.if_none_match.contains(found.etag):
        answer = Response(status=304)
    elif found.is_page:  # only its main element, because the surrounding page has the style sheet
        answer = Response(MAIN.search(found.text)[0], mimetype="text/html")  # type: ignore[index]
    else:
        answer = Response(found.text, status=422, mimetype="text/plain")
    answer.headers["Cache-Control"] = "no-store"
    answer.set_etag(found.etag)
    return answer


def make_report(path: Path, options: tuple[str, ...]) -> tuple[str, bool]:
    """Return the report about a file, or an error message, and whether it is a page."""
    try:
        with path.open("rb") as file:
            return _outcome(_run(file.fileno(), *options))
    except subprocess.TimeoutExpired:
        say = words(next(one for one in options if one.startswith("--lang=")).removeprefix("--lang="))
        return _sentence(say, "too_long", ""), False
    except OSError as error:
        return f"{path.name}: {error.strerror}", False


def _outcome(done: subprocess.CompletedProcess[bytes]) -> tuple[str, bool]:
    text = done.stdout.decode()
    if POLICY.search(text):
        return text, True
    return PATHS.sub("…", done.stderr.decode(errors="replace").removeprefix("kvtheater: "))[:300], False


def _tokenizer(context: PromptsContext, request: Request) -> str:
    return request.values.get("tokenizer", next(iter(context.tokenizers)))


def _options(context: PromptsContext, request: Request, policy: str, tokenizer: str, name: str) -> tuple[str, ...]:
    model = context.tokenizers[tokenizer]
    counted = (f"--tokenizer={tokenizer}={model}",) if model else ()
    return f"--policy={policy}", f"--lang={_language(request)}", f"--name={name}", *counted


def _shown(context: PromptsContext, say: Words) -> list[tuple[str, str]]:
    """Return the tokenizers and their names on the page."""
    return [(name, name if model else say("bundled")) for name, model in context.tokenizers.items()]


def _run(file: int, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*LOW_PRIORITY, sys.executable, "-m", "app", "prompts", f"/dev/fd/{file}", "--html=-", *options],
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
        tokenizers=_shown(context, say),
        traffic=context.traffic.path.name if context.traffic else "",
        refusal=_sentence(say, refusal, tokenizer) if refusal else reason,
        sheets=SHEETS.links("documentation"),
    )
    # with `no-referrer`, a browser would send the form with the origin "null", which the server rejects
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
    Route("GET", "/prompts/traffic", traffic),
    Route("GET", "/prompts/traffic/report", traffic_report),
]


def blueprint(tokenizers: Mapping[str, str], traffic: Path | None) -> flask.Blueprint:
    """Return the blueprint of these pages.

    Args:
        tokenizers: folders or hub names by name, in addition to the bundled model's tokenizer.
        traffic: growing file of requests for `/prompts/traffic`.
    """
    followed = None if traffic is None else Traffic(traffic, make_report)
    return routing.blueprint("prompts", "", PromptsContext({**tokenizers, BUNDLED: ""}, followed), ROUTES)
