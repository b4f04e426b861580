"""The page /scale and the endpoints of its sections: models, GPUs and loads that this machine does not have.

A section is a folder of `static/js/scale/sections/`, and its endpoint a row of `ROUTES`: what it is asked stands in the
address, and all numbers of its answer are computed here.
"""

from __future__ import annotations

from typing import NamedTuple

import flask
from flask import Request, Response

from app import assets, routing
from app.paths import static_dir
from app.routing import Route
from app.scale_placement import placement, tried_route
from app.scale_queues import queues
from app.scale_size import size


class Here(NamedTuple):
    """What the endpoints use: nothing of the server's."""


def page(here: Here, request: Request) -> Response:
    """The page."""
    modules = assets.modules_from(static_dir(), "js/scale/main.js")
    response = flask.make_response(flask.render_template("scale.html", modules=modules))
    response.headers["Cache-Control"] = "no-cache"
    return response


ROUTES = [
    Route("GET", "/scale", page),
    Route("GET", "/api/scale/size", size),
    Route("GET", "/api/scale/queues", queues),
    Route("GET", "/api/scale/placement", placement),
    Route("GET", "/api/scale/tried", tried_route),
]


def blueprint() -> flask.Blueprint:
    """`/scale` and the endpoints under /api/scale."""
    return routing.blueprint("scale", "", Here(), ROUTES)
