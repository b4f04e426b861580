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
    """Return the command with which Jupyter starts a server for its user, and the launcher's title and icon.

    Jupyter adds the server's token to every request. Other users of the machine can reach the port, but lack the token.
    """
    token = secrets.token_urlsafe(24)
    return {
        "command": [sys.executable, "-m", "app", "serve", "--port", "{port}"],
        "environment": {k: child_environment()[k] for k in ("PYTHONPATH", "PYTHONSAFEPATH")} | {TOKEN_VARIABLE: token},
        "request_headers_override": {"Authorization": f"Bearer {token}"},
        "timeout": START_SECONDS,
        "launcher_entry": {"title": "KV Theater", "icon_path": str(static_dir() / "icon.svg")},
    }
