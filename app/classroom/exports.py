"""Class results over HTTP: `/api/class/…` for a running class, `/api/classes…` for stored ones.

The results of a running class are only for its presenter. The presenter's secret is sent in a header, because URLs are
stored in histories.
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
    classroom = _class(context, request, class_id)
    run, refusal = _run(context, classroom)
    return _page(request, results_of(classroom), run, refusal)


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
    """Return a stored class as one HTML page, without a run: runs are stored only as recordings."""
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
    """Return the blueprint of the class results."""
    return routing.blueprint("class_results", "/api", ExportsContext(classrooms, store, sessions), ROUTES)


def _own(request: Request) -> None:
    if not request.environ.get(OWNER):
        raise AppError("forbidden", "this is for owners of the server")


def _class(context: ExportsContext, request: Request, class_id: str) -> Classroom:
    _own(request)
    classroom = context.classrooms.get(class_id)
    if not classroom.secret.matches(request.headers.get(SECRET, "")):
        raise AppError("forbidden", f"only the presenter may read this: {SECRET} is not this class's secret")
    return classroom


def _run(context: ExportsContext, classroom: Classroom) -> tuple[bytes | None, str | None]:
    """Return the page of the run on stage, or None and the key of the reason."""
    if classroom.session is None:
        return None, "run_gone"
    try:
        run = context.sessions.watch(classroom.session).run
        with run.reading() as log:
            return export_page(log), None
    except TooLarge:
        return None, "run_large"
    except AppError:
        return None, "run_gone"


def _table(request: Request, results: ClassResults, name: str) -> Response:
    content = _TABLES[name](results, request.args.get("lang", "en"))
    return _file(Response(content, mimetype="text/csv"), f"class-{name}.csv")


def _page(request: Request, results: ClassResults, run: bytes | None, refusal: str | None) -> Response:
    content = class_page(results, request.args.get("lang", "en"), run, refusal)
    return _file(Response(content, mimetype="text/html"), "class.html")


def _file(response: Response, name: str) -> Response:
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["Cache-Control"] = "no-store"
    return response
