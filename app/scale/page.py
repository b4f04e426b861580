"""Page /scale and the endpoints of its sections: models, GPUs and loads that this machine does not have.

A section is a folder of `static/js/scale/sections/`, and its endpoint a row of `ROUTES`: the parameters are in the
address, and all numbers of the answer are computed here.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NamedTuple

import flask
import msgspec
from flask import Request, Response

from app.ground import routing
from app.ground.routing import Route, json_answer
from app.page import modules as page_modules
from app.page import sheets as page_sheets
from app.scale.bounds import SECTIONS
from app.scale.placement import placement, tried_route
from app.scale.queues import queues
from app.scale.size import own_presets, size, size_of_config
from engine.simulate.distserve import paper

_computing = threading.Lock()  # some seconds of one core, computed once


def papers_figures(context: object, request: Request) -> Response:
    """Return all four figures; they have no parameters."""
    with _computing:
        return json_answer(paper())


class ScaleContext(NamedTuple):
    """Context of the endpoints: a user's own models, GPUs and links."""

    data_dir: Path | None
    presets: Path | None

    @property
    def own(self) -> list[Path]:
        """Their files, looked for at each request: one that is written now is there at the next."""
        return own_presets(self.data_dir, self.presets)


def sizes(context: ScaleContext, request: Request) -> Response:
    """Return the cost of a preset model."""
    return size(context.own, request)


def sizes_of_config(context: ScaleContext, request: Request) -> Response:
    """Return the cost of the model of a posted config.json."""
    return size_of_config(context.own, request)


def queueing(context: ScaleContext, request: Request) -> Response:
    """Return requests that wait, over the rate."""
    return queues(context.own, request)


def placements(context: ScaleContext, request: Request) -> Response:
    """Return how many GPUs serve a demand."""
    return placement(context.own, request)


def tried(context: ScaleContext, request: Request) -> Response:
    """Return a placement, simulated."""
    return tried_route(context.own, request)


def page(context: ScaleContext, request: Request) -> Response:
    """Return the page."""
    modules = page_modules.PAGE.ahead("js/scale/main.js")
    sheets = page_sheets.SHEETS.links("scale")
    options = {"scale": msgspec.to_builtins(SECTIONS)}
    response = flask.make_response(flask.render_template("scale.html", modules=modules, sheets=sheets, options=options))
    response.headers["Cache-Control"] = "no-cache"
    return response


ROUTES = [
    Route("GET", "/scale", page),
    Route("GET", "/api/scale/size", sizes),
    Route("POST", "/api/scale/size", sizes_of_config),
    Route("GET", "/api/scale/queues", queueing),
    Route("GET", "/api/scale/placement", placements),
    Route("GET", "/api/scale/tried", tried),
    Route("GET", "/api/scale/paper", papers_figures),
]


def blueprint(data_dir: Path | None = None, presets: Path | None = None) -> flask.Blueprint:
    """`/scale` and the endpoints under /api/scale; `data_dir`, `presets`: where a user's own figures lie."""
    return routing.blueprint("scale", "", ScaleContext(data_dir, presets), ROUTES)
