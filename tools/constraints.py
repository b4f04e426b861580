"""Write constraints.txt: one version of each package for every supported system and Python, resolved by uv.

Usage: python -m tools.constraints [--upgrade]. Without --upgrade, versions in the file are kept if they still resolve.
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
# excluded: torch pins the packages of its CUDA build, and they differ between CUDA versions
CUDA_PREFIXES = ("nvidia-", "cuda-")


class NoNetworkError(Exception):
    """The package index cannot be reached."""


def public_index() -> dict[str, str]:
    """Return the environment without the settings of pip and uv, so that both use only the public index."""
    network_settings = ("PIP_CERT", "PIP_PROXY")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environment |= {name: os.environ[name] for name in network_settings if name in os.environ}
    return {**environment, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "MACOSX_DEPLOYMENT_TARGET": "14.0"}


def resolve(*options: str) -> str:
    """Return the output of `uv pip compile` for pyproject.toml with these options.

    Raises:
        NoNetworkError: the index cannot be reached.
        ValueError: the versions cannot be resolved; the message is uv's.
    """
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", *options]
    process = subprocess.run(
        [*command, "pyproject.toml"], cwd=ROOT, env=public_index(), capture_output=True, text=True, check=False
    )
    if process.returncode == 0:
        return process.stdout
    if "No solution found" in process.stderr:
        raise ValueError(process.stderr)
    raise NoNetworkError(process.stderr)


def universal(*options: str) -> str:
    """Return the new text of constraints.txt, which keeps versions of the current file if they still resolve.

    For the errors see `resolve`.
    """
    with tempfile.TemporaryDirectory(prefix="kvtheater-") as folder:
        written = Path(shutil.copy(CONSTRAINTS, folder))  # uv prefers the versions that its output file has
        options_of_all = ("--universal", "--python-version", "3.11", "--all-extras", "--strip-extras")
        resolve(*options_of_all, "--output-file", str(written), *options)
        lines = written.read_text(encoding="utf-8").splitlines(keepends=True)
    return HEAD + "".join(line for line in lines if not line.startswith(CUDA_PREFIXES))


if __name__ == "__main__":
    CONSTRAINTS.write_text(universal(*sys.argv[1:]), encoding="utf-8")
