"""`/docs/…`: pages of the documentation, and their pictures."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import flask
from flask import Request, Response
from werkzeug.exceptions import NotFound

from app.documentation.render import navigation, page
from app.ground import routing
from app.ground.paths import docs_dir
from app.ground.routing import Route
from app.page.sheets import SHEETS

PICTURES = "img"
PICTURE_TYPES = {".png": "image/png", ".webp": "image/webp"}


class DocumentationContext(NamedTuple):
    """Context of the endpoints: the documentation's folder."""

    folder: Path


def first(context: DocumentationContext, request: Request) -> Response:
    """Redirect to the first page, by a relative address, since a proxy may serve the server below any path."""
    target = "index" if request.path.endswith("/") else "docs/index"
    return _redirect(target)


def page_or_picture(context: DocumentationContext, request: Request, name: str) -> Response:
    """Return a page of the navigation, or a picture."""
    folder, _, file = name.rpartition("/")
    if folder == PICTURES:
        return _picture(context, file)
    entries = navigation(context.folder)
    at = next((at for at, entry in enumerate(entries) if entry.name == name.removesuffix("/")), None)
    if at is None:
        raise NotFound(f"the documentation has no page {name[:80]!r}; its contents are at /docs/index")
    if name.endswith("/"):  # relative, as in `first`
        return _redirect("../" + entries[at].name.rpartition("/")[2])
    sections: dict[str, list[object]] = {}
    for entry in entries:
        sections.setdefault(entry.section or entry.title, []).append(entry)
    rendered = page(context.folder, name)
    text = flask.render_template(
        "documentation.html",
        root="../" * (name.count("/") + 1),
        entry=entries[at],
        sections=sections,
        before=entries[at - 1] if at else None,
        after=entries[at + 1] if at + 1 < len(entries) else None,
        body=rendered.html,
        headings=[heading for heading in rendered.headings if heading.level == 2],
        sheets=SHEETS.links("documentation"),
    )
    return Response(text, mimetype="text/html", headers={"Cache-Control": "no-cache"})


def _redirect(target: str) -> Response:
    return Response(status=303, headers={"Location": target, "Cache-Control": "no-cache"})


def _picture(context: DocumentationContext, file: str) -> Response:
    path = next((path for path in (context.folder / PICTURES).iterdir() if path.name == file), None)
    if path is None or path.suffix not in PICTURE_TYPES:
        raise NotFound(f"the documentation has no picture {file[:80]!r}")
    return flask.send_file(path, mimetype=PICTURE_TYPES[path.suffix], max_age=0)


ROUTES = [
    Route("GET", "/docs", first),
    Route("GET", "/docs/", first),
    Route("GET", "/docs/<path:name>", page_or_picture),
]


def blueprint() -> flask.Blueprint:
    """Return the blueprint of the documentation."""
    return routing.blueprint("documentation", "", DocumentationContext(docs_dir()), ROUTES)
