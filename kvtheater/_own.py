"""Check for name collisions: Python may import a module `engine` from the user's folder instead of this project's."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("engine",)  # packages that the public package imports


def require_own_packages() -> None:
    """Raise ImportError if a file or folder of the user hides one of these packages."""
    for name in PACKAGES:
        if hidden := hidden_by(name):
            raise ImportError(hidden, name=name)


def hidden_by(name: str) -> str | None:
    """Return an error message if Python finds another package by this name, otherwise None."""
    home = Path(__file__).resolve().parent.parent
    loaded = sys.modules.get(name)
    spec = find_spec(name) if loaded is None else getattr(loaded, "__spec__", None)
    places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
    found = next((Path(place).resolve() for place in places if place), None)
    if found is not None and home / name in (found, *found.parents):
        return None
    hidden = f"hidden by {found}: rename that" if found else "missing: install kvtheater again"
    return f"the package {name} of kvtheater is {hidden}"
