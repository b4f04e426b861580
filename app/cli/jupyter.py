"""Entry point of jupyter-server-proxy: a button in JupyterLab's launcher that starts a server."""

from __future__ import annotations

import secrets
import sys
from typing import Any

from app.cli.listening import TOKEN_VARIABLE
from app.ground.paths import static_dir
from engine.system.host import child_environment

START_SECONDS = 60.0


def server_proxy() -> dict[str, Any]:
    """Return how Jupyter starts a server for its user, and what it shows of it.

    Every request that passes Jupyter gets the server's token; other users of the machine reach the port and have none.
    """
    token = secrets.token_urlsafe(24)
    return {
        "command": [sys.executable, "-m", "app", "serve", "--port", "{port}"],
        "environment": {k: child_environment()[k] for k in ("PYTHONPATH", "PYTHONSAFEPATH")} | {TOKEN_VARIABLE: token},
        "request_headers_override": {"Authorization": f"Bearer {token}"},
        "timeout": START_SECONDS,
        "launcher_entry": {"title": "KV Theater", "icon_path": str(static_dir() / "icon.svg")},
    }
