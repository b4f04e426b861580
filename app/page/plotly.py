"""The charting library's script, from the installed `plotly` package: no CDN, and the version is pip's to pin."""

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
    """Send `plotly.min.js`, compressed if gzip is accepted (4.8 MB become 1.4 MB). Browsers cache it until its version
    changes.

    Raises:
        AppError: `not_found`, where the package is not installed.
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
