"""The page itself and the two files that it asks for by other names than their own."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import flask
from flask import Request, Response

from app import assets, plotly_asset, routing
from app.paths import static_dir
from app.routing import Route
from engine.config import EngineConfig, SamplingParams
from engine.options.payload import tables_payload


@functools.cache
def option_tables() -> dict[str, Any]:
    """The tables of options that stand in the page."""
    return tables_payload(engine=EngineConfig, sampling=SamplingParams)


class Here(NamedTuple):
    """The pages use nothing of the server's."""


def page(here: Here, request: Request) -> Response:
    """The stage."""
    # most visits go on to everything, whose code main.js asks for only then
    modules = assets.modules_from(static_dir(), "js/main.js", "js/page/bench.js")
    sheets = assets.panel_sheets(static_dir())
    response = flask.make_response(
        flask.render_template("index.html", modules=modules, panel_sheets=sheets, options=option_tables())
    )
    response.headers["Cache-Control"] = "no-cache"
    return response


def plotly(here: Here, request: Request) -> Response:
    """The charts' script, from the installed package."""
    return plotly_asset.answer()


def icon(here: Here, request: Request) -> Response:
    """What browsers ask for unasked; the page names its own icon."""
    return Response(status=204)


ROUTES = [
    Route("GET", "/", page),
    Route("GET", "/vendor/plotly.min.js", plotly),
    Route("GET", "/favicon.ico", icon),
]


def blueprint() -> flask.Blueprint:
    """The addresses outside /api and /bench."""
    return routing.blueprint("pages", "", Here(), ROUTES)
