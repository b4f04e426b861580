"""Class results over HTTP: `/api/class/…` for a running class, `/api/classes…` for stored ones.

A running class belongs to its presenter: the secret comes in a header, never in an address, which histories store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import flask
from flask import Request, Response

from app.classroom.answers import StoredClassesAnswer
from app.classroom.classroom import Classroom
from app.classroom.classrooms import Classrooms
from app.classroom.record_page import class_page
from app.classroom.results import ClassResults, results_of
from app.classroom.store import Store
from app.classroom.tables import answers_csv, questions_csv
from app.ground import routing
from app.ground.callers import OWNER
from app.ground.errors import AppError
from app.ground.routing import Route, json_answer
from app.page.onefile import TooLarge, export_page
from app.session.session_manager import SessionManager

SECRET = "X-KVTheater-Class"
_TABLES: dict[str, Callable[[ClassResults, str], bytes]] = {"answers": answers_csv, "questions": questions_csv}


class ExportsContext(NamedTuple):
    """Context of the endpoints."""

    classrooms: Classrooms
    store: Store
    sessions: SessionManager


def table(context: ExportsContext, request: Request, class_id: str, name: str) -> Response:
    """Return a table of a running class."""
    return _table(request, results_of(_class(context, request, class_id)), name)


def page(context: ExportsContext, request: Request, class_id: str) -> Response:
    """Return a running class as one HTML page, with the run on stage."""
    found = _class(context, request, class_id)
    run, refusal = _run(context, found)
    return _page(request, results_of(found), run, refusal)


def stored_classes(context: ExportsContext, request: Request) -> Response:
    """Return the list of stored classes."""
    _own(request)
    answer: StoredClassesAnswer = {"classes": context.store.all(), "can_keep": context.store.can_keep}
    return json_answer(answer)


def stored_class_table(context: ExportsContext, request: Request, class_id: str, name: str) -> Response:
    """Return a table of a stored class."""
    _own(request)
    return _table(request, context.store.get(class_id), name)


def stored_class_page(context: ExportsContext, request: Request, class_id: str) -> Response:
    """Return a stored class as one HTML page. Its run is not stored with it: that is a recording, if there is one."""
    _own(request)
    return _page(request, context.store.get(class_id), None, "run_gone")


_CLASS = "/class/<class_id>"
_STORED_CLASS = "/classes/<class_id>"

ROUTES = [
    Route("GET", f"{_CLASS}/<any(answers, questions):name>.csv", table),
    Route("GET", f"{_CLASS}/page.html", page),
    Route("GET", "/classes", stored_classes),
    Route("GET", f"{_STORED_CLASS}/<any(answers, questions):name>.csv", stored_class_table),
    Route("GET", f"{_STORED_CLASS}/page.html", stored_class_page),
]


def blueprint(classrooms: Classrooms, store: Store, sessions: SessionManager) -> flask.Blueprint:
    """Blueprint of the class results."""
    return routing.blueprint("class_results", "/api", ExportsContext(classrooms, store, sessions), ROUTES)


def _own(request: Request) -> None:
    if not request.environ.get(OWNER):
        raise AppError("forbidden", "this is for owners of the server")


def _class(context: ExportsContext, request: Request, class_id: str) -> Classroom:
    _own(request)
    found = context.classrooms.get(class_id)
    if not found.secret.fits(request.headers.get(SECRET, "")):
        raise AppError("forbidden", f"this is the presenter's alone: the header {SECRET} has no secret of this class")
    return found


def _run(context: ExportsContext, found: Classroom) -> tuple[bytes | None, str | None]:
    """Return the page of the run on stage, or the key of the words that say why there is none."""
    if found.session is None:
        return None, "run_gone"
    try:
        run = context.sessions.watch(found.session).run
        with run.reading() as log:
            return export_page(log), None
    except TooLarge:
        return None, "run_large"
    except AppError:
        return None, "run_gone"


def _table(request: Request, results: ClassResults, name: str) -> Response:
    made = _TABLES[name](results, request.args.get("lang", "en"))
    return _file(Response(made, mimetype="text/csv"), f"class-{name}.csv")


def _page(request: Request, results: ClassResults, run: bytes | None, refusal: str | None) -> Response:
    made = class_page(results, request.args.get("lang", "en"), run, refusal)
    return _file(Response(made, mimetype="text/html"), "class.html")


def _file(response: Response, name: str) -> Response:
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["Cache-Control"] = "no-store"
    return response
