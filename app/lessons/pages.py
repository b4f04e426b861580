"""`/api/lessons`: the lessons that there are, and the files that were meant to be some."""

from __future__ import annotations

from typing import NamedTuple

import flask
from flask import Request, Response

from app import routing
from app.api_answers import LessonsAnswer
from app.lessons.catalogue import card
from app.lessons.rooms import LessonRooms
from app.routing import Route, json_answer


class Here(NamedTuple):
    """What the endpoints use."""

    rooms: LessonRooms


def lessons(here: Here, request: Request) -> Response:
    """Every lesson, and why some cannot be played."""
    catalogue = here.rooms.catalogue
    answer: LessonsAnswer = {
        "lessons": [card(lesson, here.rooms.refusal(lesson)) for lesson in catalogue.lessons()],
        "faults": [
            {"file": path.name, "line": error.line, "sentence": error.sentence} for path, error in catalogue.errors()
        ],
    }
    return json_answer(answer)


ROUTES = [Route("GET", "/lessons", lessons)]


def blueprint(rooms: LessonRooms) -> flask.Blueprint:
    """`/api/lessons`."""
    return routing.blueprint("lessons", "/api", Here(rooms), ROUTES)
