"""Paths of the page's files (beside the package in a checkout, inside it in a wheel), and of the data folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def static_dir() -> Path:
    """Return the folder served under /static."""
    return _find("static")


def templates_dir() -> Path:
    """Return the folder of the page's templates."""
    return _find("templates")


def docs_dir() -> Path:
    """Return the folder of the documentation's Markdown."""
    return _find("docs")


def data_dir() -> Path:
    """Return the platform's folder for this program's data."""
    if base := os.environ.get("XDG_DATA_HOME"):
        return Path(base) / "kvtheater"
    place = "Library/Application Support" if sys.platform == "darwin" else ".local/share"
    try:
        return Path.home() / place / "kvtheater"
    except RuntimeError:  # the user has no home, as in many containers
        return Path("kvtheater-data").absolute()


def _find(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
