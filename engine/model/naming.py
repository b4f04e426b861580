"""Public name of a model, for logs, the page and exports."""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.model.gguf_file import is_gguf

# A model in the hub's cache: .../models--<owner>--<name>/snapshots/<commit>
_HUB_FOLDER = re.compile(r"^models--(?P<owner>.+?)--(?P<name>.+)$")
DEFAULT_NAME = "model"


def model_name(name_or_path: str) -> str:
    """Return a hub name unchanged, the hub name of a folder in the hub's cache, and the last component of other paths.

    The complete path would reveal facts about the machine and its user.
    """
    if not _is_path(name_or_path):
        return name_or_path
    folder = Path(os.path.abspath(Path(name_or_path).expanduser()))
    cached = _HUB_FOLDER.match(folder.parent.parent.name) if folder.parent.name == "snapshots" else None
    if cached:
        return f"{cached['owner']}/{cached['name']}"
    return folder.name or DEFAULT_NAME


def _is_path(name: str) -> bool:
    """Return whether `name` is a path and not a hub name (`name` or `owner/name`). Existing folders are paths."""
    exists = Path(name).is_dir() or is_gguf(name)
    return name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1 or exists
