"""What a model is called where others read it: in logs, on the page, in exports."""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.model.gguf_file import is_gguf

# A model that the hub's cache holds: .../models--<owner>--<name>/snapshots/<commit>
_OF_THE_HUB = re.compile(r"^models--(?P<owner>.+?)--(?P<name>.+)$")
NAMELESS = "model"


def model_name(name_or_path: str) -> str:
    """A hub name as it is; a folder by its own name, never by its path: that tells of a machine and who uses it.

    A folder of the hub's cache is called what the hub calls it.
    """
    if not _is_path(name_or_path):
        return name_or_path
    folder = Path(os.path.abspath(Path(name_or_path).expanduser()))
    cached = _OF_THE_HUB.match(folder.parent.parent.name) if folder.parent.name == "snapshots" else None
    if cached:
        return f"{cached['owner']}/{cached['name']}"
    return folder.name or NAMELESS


def _is_path(name: str) -> bool:
    """A hub name is a word, or two with a slash; what is a folder here is one even if it looks like that."""
    is_here = Path(name).is_dir() or is_gguf(name)
    return name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1 or is_here
