"""Hash of the code that executes a step, to detect records that are older than the code."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

ENGINE = Path(__file__).parents[1]
PACKAGES = ("cache", "model", "requests", "scheduling")  # code that executes a step, besides engine.py


@cache
def step_code_hash() -> str:
    """Return 16 hexadecimal digits of the SHA-256 of the Python and C files, including their paths."""
    folders = [ENGINE / package for package in PACKAGES]
    files = [path for folder in folders for ending in ("py", "c", "h") for path in folder.rglob(f"*.{ending}")]
    found = sha256()
    for path in sorted([ENGINE / "engine.py", *files]):
        data = path.read_bytes()
        found.update(f"{path.relative_to(ENGINE).as_posix()}\0{len(data)}\0".encode() + data)
    return found.hexdigest()[:16]
