"""Hash of the code that executes a step, to detect records that are older than the code."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

ENGINE = Path(__file__).parents[1]
ROOMS = ("cache", "model", "requests", "scheduling")  # packages that execute a step, besides engine.py


@cache
def code_of_a_step() -> str:
    """Return 16 hexadecimal digits of the SHA-256 of the Python and C files, including their paths."""
    files = [path for room in ROOMS for ending in ("py", "c", "h") for path in (ENGINE / room).rglob(f"*.{ending}")]
    found = sha256()
    for path in sorted([ENGINE / "engine.py", *files]):
        data = path.read_bytes()
        found.update(f"{path.relative_to(ENGINE).as_posix()}\0{len(data)}\0".encode() + data)
    return found.hexdigest()[:16]
