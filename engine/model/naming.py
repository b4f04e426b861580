"""Public name of a model, for logs, the page and exports."""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.model.gguf_file import is_gguf

# A model in the hub's cache: .../models--<owner>--<name>/snapshots/<commit>
_OF_THE_HUB = re.compile(r"^models--(?P<owner>.+?)--(?P<name>.+)$")
NAMELESS = "model"


def model_name(name_or_path: str) -> str:
    """Return a hub name unchanged; a folder's own name, never its path, which would reveal the machine and its user.

    A folder of the hub's cache gets its hub name.
    """
    if not _is_path(name_or_path):
        return name_or_path
    folder = Path(os.path.abspath(Path(name_or_path).expanduser()))
    cached = _OF_THE_HUB.match(folder.parent.parent.name) if folder.parent.name == "snapshots" else None
    if cached:
        return f"{cached['owner']}/{cached['name']}"
    return folder.name or NAMELESS


def _is_path(name: str) -> bool:
    """Return whether `name` is a path. Hub names are one word, or two with a slash; an existing folder is a path."""
    is_here = Path(name).is_dir() or is_gguf(name)
    return name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1 or is_here
