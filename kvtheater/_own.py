"""Check for name collisions: another `engine` beside a user's script would be imported in place of ours."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

OURS = ("engine",)  # imported together with the public package


def require_own_packages() -> None:
    """Raise ImportError, one sentence, when one of our packages is hidden by a file or folder of another origin."""
    for name in OURS:
        if hidden := hidden_by(name):
            raise ImportError(hidden, name=name)


def hidden_by(name: str) -> str | None:
    """Return one sentence if Python finds another package than ours under this name, else None."""
    home = Path(__file__).resolve().parent.parent
    loaded = sys.modules.get(name)
    spec = find_spec(name) if loaded is None else getattr(loaded, "__spec__", None)
    places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
    found = next((Path(place).resolve() for place in places if place), None)
    if found is not None and home / name in (found, *found.parents):
        return None
    hidden = f"hidden by {found}: rename that" if found else "missing: install kvtheater again"
    return f"the package {name} of kvtheater is {hidden}"
