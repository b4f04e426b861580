"""Pages for a browser without access: the join page of a class, and error pages.

A browser gets an error as a page in its language, with a link to continue. Other programs get it as JSON.
"""

from __future__ import annotations

import functools
import json
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import jinja2
from werkzeug import Request

from app.ground.callers import DOOR_ICON, DOOR_SHEETS, JOIN, PASS, PASS_COOKIE, Environ
from app.ground.errors import AppError
from app.ground.paths import templates_dir

FOR_PROGRAMS = ("/api/", "/socket.io", "/metrics")  # paths that no browser opens as a page
FILES = ("/static/", "/vendor/", "/words/")
_WORDS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "door.json").read_text(encoding="utf-8"))


class Page(NamedTuple):
    """Response to a request for a page."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def status_line(self) -> str:
        return f"{self.status} {HTTPStatus(self.status).phrase}"


def wants_page(environ: Environ) -> bool:
    """Return whether a browser requests a page."""
    path = str(environ.get("PATH_INFO", ""))
    is_read = environ["REQUEST_METHOD"] in ("GET", "HEAD")
    return is_read and "text/html" in environ.get("HTTP_ACCEPT", "") and not path.startswith((*FOR_PROGRAMS, *FILES))


def join_page(environ: Environ, code: str = "", refusal: str = "", status: int = 200) -> Page:
    """Return the page where a join code is entered. `refusal`: key of the reason why the last code was rejected."""
    return _page(environ, status, has_form=True, code=code[:20], refusal=refusal)


def refused_page(environ: Environ, error: AppError, status: int) -> Page:
    """Return the page of an error: the join page if a code would help, else a page with a link."""
    if error.code != "token_required":
        if error.code == "not_found":
            return _page(environ, status, "page.not_found")
        return _page(environ, status, "page.other", detail=error.message)
    if environ.get(PASS):
        return _page(environ, status, "page.guest", way="way.class")
    return join_page(environ, "", "refusal.again" if _has_pass(environ) else "refusal.outside", status)


def _page(
    environ: Environ,
    status: int,
    heading: str = "title",
    *,
    has_form: bool = False,
    code: str = "",
    refusal: str = "",
    detail: str = "",
    way: str = "way.start",
) -> Page:
    words = _WORDS[Request(environ).accept_languages.best_match(list(_WORDS)) or "en"]
    # relative, because a proxy may serve the page below a path
    root = "../" * (str(environ.get("PATH_INFO", "/")).count("/") - 1) or "./"
    body = (
        _template()
        .render(
            words=words,
            root=root,
            icon=root + DOOR_ICON[1:],
            sheets=[root + sheet[1:] for sheet in DOOR_SHEETS],
            action=f"{root}{JOIN[1:]}in",
            heading=words[heading],
            has_form=has_form,
            code=code,
            refusal=words[refusal] if refusal else "",
            detail=detail,
            way=words[way],
        )
        .encode()
    )
    headers = [
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
    ]
    return Page(status, headers, body if environ["REQUEST_METHOD"] != "HEAD" else b"")


def _has_pass(environ: Environ) -> bool:
    """Return whether the browser has a pass of a class, which may be invalid."""
    return bool(Request(environ).cookies.get(PASS_COOKIE))


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(templates_dir()), autoescape=True)
    return environment.get_template("join.html")
