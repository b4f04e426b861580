"""`/api/lessons`: lessons, invalid files, and export of a lesson."""

from __future__ import annotations

from typing import NamedTuple

import flask
from flask import Request, Response

from app.ground import routing
from app.ground.routing import Route, json_answer
from app.lessons.answers import LessonsAnswer
from app.lessons.lesson_sessions import LessonSessions


class LessonsContext(NamedTuple):
    """Context of the endpoints."""

    sessions: LessonSessions


def lessons(context: LessonsContext, request: Request) -> Response:
    """Return all lessons, with the reason if one cannot be played, and the errors of invalid files."""
    catalogue = context.sessions.catalogue
    answer: LessonsAnswer = {
        "lessons": context.sessions.cards,
        "faults": [
            {"file": path.name, "line": error.line, "sentence": error.sentence} for path, error in catalogue.errors()
        ],
    }
    return json_answer(answer)


def export(context: LessonsContext, request: Request, lesson_id: str) -> Response:
    """Return a lesson as one HTML file."""
    response = Response(context.sessions.export(lesson_id), mimetype="text/html")
    response.headers["Content-Disposition"] = f'attachment; filename="kvtheater-{lesson_id}.html"'
    response.headers["Cache-Control"] = "no-store"
    return response


ROUTES = [Route("GET", "/lessons", lessons), Route("GET", "/lessons/<lesson_id>/export.html", export)]


def blueprint(sessions: LessonSessions) -> flask.Blueprint:
    """Return the blueprint of `/api/lessons`."""
    return routing.blueprint("lessons", "/api", LessonsContext(sessions), ROUTES)
