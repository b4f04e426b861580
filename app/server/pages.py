"""The page, its charts script, and the browsers' default icon."""

from __future__ import annotations

from typing import NamedTuple

import flask
from flask import Request, Response

from app.ground import routing
from app.ground.routing import Route
from app.models.model_entry import ModelEntry
from app.page import modules as page_modules
from app.page import plotly as plotly_asset
from app.page import sheets as page_sheets
from app.page.options import option_tables
from engine.config import EngineConfig


class PagesContext(NamedTuple):
    """Context of the endpoints: defaults of a run, and the first model."""

    config: EngineConfig
    served: ModelEntry


def page(context: PagesContext, request: Request) -> Response:
    """Return the page."""
    modules = page_modules.PAGE.preloads("js/main.js")
    response = flask.make_response(
        flask.render_template(
            "index.html",
            modules=modules,
            sheets=page_sheets.SHEETS.links("index"),
            options=option_tables(context.config, context.served.facts),
        )
    )
    response.headers["Cache-Control"] = "no-cache"
    return response


def plotly(context: PagesContext, request: Request) -> Response:
    """Return the charts' script from the installed plotly package."""
    return plotly_asset.answer()


def icon(context: PagesContext, request: Request) -> Response:
    """Answer the browsers' default request for an icon with 204, since the page names its icon itself."""
    return Response(status=204)


ROUTES = [
    Route("GET", "/", page),
    Route("GET", "/vendor/plotly.min.js", plotly),
    Route("GET", "/favicon.ico", icon),
]


def blueprint(config: EngineConfig, served: ModelEntry) -> flask.Blueprint:
    """Return the blueprint of these pages. `config`: defaults of a run; `served`: the first model."""
    return routing.blueprint("pages", "", PagesContext(config, served), ROUTES)
