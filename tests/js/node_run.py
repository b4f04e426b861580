"""Scripts below tests/js, run by node."""

import subprocess
from pathlib import Path

from tools.node import node

FOLDER = Path(__file__).parent


def node_output(script: str, *arguments: object, given: str | None = None, seconds: float = 120.0) -> str:
    """Return what a script prints; `given` is its input."""
    command = [node(), str(FOLDER / script), *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout
