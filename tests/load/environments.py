"""Virtual environments for tools that must not be in this program's own environment."""

import subprocess
import sys
from pathlib import Path


def programs(folder: Path, *packages: str) -> Path:
    """Return the folder of an environment's programs, with these packages; the environment is created if missing.

    Raises:
        CalledProcessError: pip failed, and has said why.
    """
    if not (folder / "complete").exists():
        print(f"installing {', '.join(packages)} into {folder}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", *packages], check=True)
        (folder / "complete").touch()
    return folder / "bin"
