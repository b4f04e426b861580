"""The charting library's script, from the installed `plotly` package: no CDN, and the version is pip's to pin."""

from __future__ import annotations

import functools
import gzip
import importlib.util
from importlib.metadata import version
from pathlib import Path

import flask
from flask import Response

from app.errors import AppError

DAY = 24 * 3600  # seconds


def answer() -> Response:
    """`plotly.min.js`, compressed for who accepts it (4.8 MB become 1.4), kept by the browser until pip changes it.

    Raises:
        AppError: `not_found`, where the package is not installed.
    """
    path = _path()
    if path is None:
        raise AppError("not_found", "charts need the plotly package: pip install plotly")
    response = Response(mimetype="text/javascript")
    response.set_etag(f"plotly-{version('plotly')}")
    response.headers["Cache-Control"] = f"public, max-age={DAY}"
    response.headers["Vary"] = "Accept-Encoding"
    if response.make_conditional(flask.request).status_code == 304:
        return response
    if flask.request.accept_encodings.quality("gzip") > 0:
        response.headers["Content-Encoding"] = "gzip"
        response.set_data(_compressed(path))
    else:
        response.set_data(path.read_bytes())
    return response


def _path() -> Path | None:
    """Where the script lies, found without importing the package."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    return path if path.is_file() else None


@functools.cache
def _compressed(path: Path) -> bytes:
    """Once a process, at the first request; a few tenths of a second."""
    return gzip.compress(path.read_bytes(), 6, mtime=0)
