"""`/j/…`: pages for joining a class. A code, or the link of the QR code, is exchanged for a pass."""

from __future__ import annotations

from typing import NamedTuple

import flask
from flask import Request, Response

from app.classroom.classrooms import Classrooms
from app.ground import routing
from app.ground.callers import PASS_COOKIE, address_of
from app.ground.errors import HTTP_STATUS, AppError
from app.ground.routing import Route
from app.page.door import join_page

DAY = 24 * 3600  # seconds for which a browser's pass is valid


class ClassPagesContext(NamedTuple):
    """Context of the endpoints."""

    classrooms: Classrooms


def door(context: ClassPagesContext, request: Request) -> Response:
    """Return the page on which a code is entered."""
    return _join_page(request, "", None)


def typed(context: ClassPagesContext, request: Request) -> Response:
    """Admit a browser by the code entered on the page."""
    return admit(context, request, request.args.get("code", ""))


def admit(context: ClassPagesContext, request: Request, given: str) -> Response:
    """Admit a browser by a code or `code.key`. A browser that has a seat in the class keeps it."""
    try:
        existing = context.classrooms.read_pass(request.cookies.get(PASS_COOKIE, ""))
        text = context.classrooms.new_pass(given, address_of(request.environ), existing)
    except AppError as error:
        return _join_page(request, given.partition(".")[0], error)
    valid = existing if text is None else context.classrooms.read_pass(text)
    assert valid is not None
    answer = Response(status=303, headers={"Location": f"../?class={valid.class_id}", "Cache-Control": "no-store"})
    if text is not None:
        answer.set_cookie(PASS_COOKIE, text, max_age=DAY, path=f"{request.script_root}/", httponly=True, samesite="Lax")
    return answer


def _join_page(request: Request, code: str, refusal: AppError | None) -> Response:
    key, status = (f"refusal.{refusal.code}", HTTP_STATUS[refusal.code]) if refusal else ("", 200)
    found = join_page(request.environ, code, key, status)
    return Response(found.body, found.status, found.headers)


ROUTES = [
    Route("GET", "/j/", door),
    Route("GET", "/j/in", typed),
    Route("GET", "/j/<given>", admit),
]


def blueprint(classrooms: Classrooms) -> flask.Blueprint:
    """Return the blueprint of the join pages."""
    return routing.blueprint("classroom", "", ClassPagesContext(classrooms), ROUTES)
