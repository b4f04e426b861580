"""Write constraints.txt: one version of each package for every supported system and Python, resolved by uv.

Usage: python -m tools.constraints [--upgrade]. Versions in the file are kept where they still fit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
HEAD = "# Versions that the tests run with, for every supported system: made by python -m tools.constraints\n"
# torch itself pins the packages of its CUDA build; builds for other CUDA versions need other ones
OF_CUDA = ("nvidia-", "cuda-")


class NoNetworkError(Exception):
    """The package index cannot be reached."""


def public_index() -> dict[str, str]:
    """Return the environment without settings of pip and uv, so that both ask the public index alone."""
    reached_by = ("PIP_CERT", "PIP_PROXY")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environment |= {name: os.environ[name] for name in reached_by if name in os.environ}
    return {**environment, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "MACOSX_DEPLOYMENT_TARGET": "14.0"}


def resolve(*options: str) -> str:
    """Return what `uv pip compile` prints for pyproject.toml with these options.

    Raises:
        NoNetworkError: the index cannot be reached.
        ValueError: no set of versions fits; the message is uv's.
    """
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", *options]
    done = subprocess.run(
        [*command, "pyproject.toml"], cwd=ROOT, env=public_index(), capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return done.stdout
    if "No solution found" in done.stderr:
        raise ValueError(done.stderr)
    raise NoNetworkError(done.stderr)


def universal(*options: str) -> str:
    """Return the text of constraints.txt, with the versions of the present file where they fit.

    Raises as `resolve` does.
    """
    with tempfile.TemporaryDirectory(prefix="kvtheater-") as folder:
        written = Path(shutil.copy(CONSTRAINTS, folder))  # uv prefers the versions that its output file has
        every = ("--universal", "--python-version", "3.11", "--all-extras", "--strip-extras")
        resolve(*every, "--output-file", str(written), *options)
        lines = written.read_text(encoding="utf-8").splitlines(keepends=True)
    return HEAD + "".join(line for line in lines if not line.startswith(OF_CUDA))


if __name__ == "__main__":
    CONSTRAINTS.write_text(universal(*sys.argv[1:]), encoding="utf-8")
