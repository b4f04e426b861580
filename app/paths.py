"""Where the page's files lie: beside the package in a source checkout, inside it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def static_dir() -> Path:
    """The folder served under /static."""
    return _find("static")


def templates_dir() -> Path:
    """The folder of the page's templates."""
    return _find("templates")


def _find(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
