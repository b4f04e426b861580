"""Where the page's files lie: beside the package in a source checkout, inside it in an installed wheel."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def static_dir() -> Path:
    """The folder served under /static."""
    return _find("static")


def templates_dir() -> Path:
    """The folder of the page's templates."""
    return _find("templates")


def plotly_script() -> Path | None:
    """The charts library as the plotly package carries it; None where that package is not installed."""
    spec = importlib.util.find_spec("plotly")  # finds, does not import: importing plotly takes a while
    for folder in (spec.submodule_search_locations or []) if spec else []:
        script = Path(folder) / "package_data" / "plotly.min.js"
        if script.is_file():
            return script
    return None


def _find(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
