"""Script of the charting library, served from the installed `plotly` package instead of a CDN."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from pathlib import Path

import flask
from flask import Response

from app.ground.errors import refuse
from app.page.assets import compress

DAY = 24 * 3600  # seconds


def answer() -> Response:
    """Return a response with `plotly.min.js`, compressed if the browser accepts gzip (1.4 instead of 4.8 MB).

    Raises:
        AppError: `not_found` if the package is not installed.
    """
    path = script_path()
    if path is None:
        raise refuse("not_found", "charts.plotly")
    response = flask.send_file(path, "text/javascript", etag=f"plotly-{version('plotly')}", max_age=DAY)
    compress(response, path)
    return response


def script_path() -> Path | None:
    """Return the path of the script, without importing the package."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    return path if path.is_file() else None
