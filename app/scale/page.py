"""Page /scale and the endpoints of its sections: models, GPUs and loads beyond this machine.

A section is a folder of `static/js/scale/sections/`, with an endpoint in `ROUTES` that gets its parameters in the URL
and computes all numbers.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import flask
import msgspec
from flask import Request, Response

from app.ground import routing
from app.ground.routing import Endpoint, Route, json_answer
from app.page import modules as page_modules
from app.page import sheets as page_sheets
from app.scale.bounds import SECTIONS
from app.scale.placement import placement, tried_route
from app.scale.queues import queues
from app.scale.size import own_presets, size, size_of_config
from engine.simulate.distserve import paper

_computing = threading.Lock()  # the first computation takes some seconds on one core


def paper_figures(context: object, request: Request) -> Response:
    """Return the four figures of the paper. They have no parameters."""
    with _computing:
        return json_answer(paper())


class ScaleContext(NamedTuple):
    """Context of the endpoints: a user's own models, GPUs and links."""

    data_dir: Path | None
    presets: Path | None

    @property
    def own(self) -> list[Path]:
        """Files of a user's own presets, listed at each request."""
        return own_presets(self.data_dir, self.presets)


def _with_presets(answer: Callable[[Sequence[Path], Request], Response]) -> Endpoint:
    """Return an endpoint that calls `answer` with the files of a user's own presets."""
    return functools.wraps(answer)(lambda context, request: answer(context.own, request))


def page(context: ScaleContext, request: Request) -> Response:
    """Return the page."""
    modules = page_modules.PAGE.preloads("js/scale/main.js")
    sheets = page_sheets.SHEETS.links("scale")
    options = {"scale": msgspec.to_builtins(SECTIONS)}
    response = flask.make_response(flask.render_template("scale.html", modules=modules, sheets=sheets, options=options))
    response.headers["Cache-Control"] = "no-cache"
    return response


ROUTES = [
    Route("GET", "/scale", page),
    Route("GET", "/api/scale/size", _with_presets(size)),
    Route("POST", "/api/scale/size", _with_presets(size_of_config)),
    Route("GET", "/api/scale/queues", _with_presets(queues)),
    Route("GET", "/api/scale/placement", _with_presets(placement)),
    Route("GET", "/api/scale/tried", _with_presets(tried_route)),
    Route("GET", "/api/scale/paper", paper_figures),
]


def blueprint(data_dir: Path | None = None, presets: Path | None = None) -> flask.Blueprint:
    """Return the blueprint of /scale and /api/scale. `data_dir`, `presets`: paths of a user's own presets."""
    return routing.blueprint("scale", "", ScaleContext(data_dir, presets), ROUTES)
