"""`engine` is a name that others use too: a file of theirs beside their script would be imported in place of ours."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

OURS = ("engine",)  # what the public face imports


def require_own_packages() -> None:
    """Raise ImportError, one sentence, when one of our packages is hidden by a file or folder of another origin."""
    home = Path(__file__).resolve().parent.parent
    for name in OURS:
        loaded = sys.modules.get(name)
        spec = find_spec(name) if loaded is None else getattr(loaded, "__spec__", None)
        places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
        found = next((Path(place).resolve() for place in places if place), None)
        if found is None or home / name not in (found, *found.parents):
            hidden = f"hidden by {found}: rename that" if found else "missing: install kvtheater again"
            raise ImportError(f"the package {name} of kvtheater is {hidden}", name=name)
