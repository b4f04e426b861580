"""Cache of files derived from logs: folder, names, and eviction."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

LIVE = "live-"  # prefix of the files of live runs
MAX_FILES = 16  # files of a kind; beyond it the least recently used are deleted


def folder_in(data_dir: Path) -> Path:
    """Return the cache folder within the data folder."""
    return data_dir / "surveys"


def name_of(log: Path) -> str:
    """Return the base name of the files derived from a log."""
    return hashlib.sha256(os.fsencode(log.resolve())).hexdigest()[:24]


def drop_unused(folder: Path, suffix: str, data_suffix: str, keep: set[Path]) -> None:
    """Evict the least recently used entries, so that there is room for one more within MAX_FILES."""
    found = (path for path in folder.glob(f"*{suffix}") if not path.name.startswith(LIVE))
    oldest_first = sorted(found, key=lambda path: path.stat().st_mtime)
    for path in oldest_first[: max(0, len(oldest_first) + 1 - MAX_FILES)]:
        if path not in keep:
            path.unlink(missing_ok=True)
            path.with_suffix(data_suffix).unlink(missing_ok=True)
