"""Server of a notebook, whose page is shown in a cell."""

from __future__ import annotations

import atexit
import contextlib
import html
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections import deque
from importlib.util import find_spec
from typing import Any

from engine.system.host import child_environment
from kvtheater._own import hidden_by

HEIGHT = 860  # CSS pixels
END_SECONDS = 10.0
_shown: dict[tuple[str, ...], ShownPage] = {}


class ShownPage:
    """Page of a server. A notebook displays it in a frame as the last expression of a cell."""

    def __init__(self, arguments: tuple[str, ...], height: int) -> None:
        self.height = height
        self._token = secrets.token_urlsafe(24)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "app.cli.notebook_server", "serve", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
            env=child_environment(KVTHEATER_TOKEN=self._token, PYTHONUNBUFFERED="1"),
            process_group=0,  # interrupting a cell must not interrupt the server
        )  # fmt: skip
        self._lines: deque[str] = deque(maxlen=20)  # last lines of its output
        self.port = self._listening()
        threading.Thread(target=self._drain, daemon=True).start()

    @property
    def address(self) -> str:
        """Address of the page for a browser on this machine. It contains the server's token, which grants access."""
        return f"http://127.0.0.1:{self.port}/{self._token}/"

    @property
    def is_running(self) -> bool:
        """Whether the server process is running."""
        return self._process.poll() is None

    def close(self) -> None:
        """Stop the server. Runs that were not saved as recordings are lost."""
        with self._process as process:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()

    def _listening(self) -> int:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.strip())
            if found := re.search(r"http://127\.0\.0\.1:(\d+)/", line):
                return int(found[1])
        raise RuntimeError(self._lines[-1] if self._lines else "the server ended without output")

    def _drain(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):  # the pipe was closed
            for line in self._process.stdout:
                self._lines.append(line.strip())
            if self._process.wait() not in (0, -signal.SIGTERM):  # for example, the model cannot be opened
                print(self._lines[-1], file=sys.stderr)

    def _ipython_display_(self) -> None:
        """Show the page through Colab's proxy. Other notebooks call `_repr_html_`."""
        if "google.colab" not in sys.modules or not self.is_running:
            raise NotImplementedError
        from google.colab import output

        output.serve_kernel_port_as_iframe(self.port, path=f"/{self._token}/", height=str(self.height))

    def _repr_html_(self) -> str:
        if not self.is_running:
            last = html.escape(self._lines[-1] if self._lines else "")
            return f"<p>The server has ended; call <code>show()</code> again. {last}</p>"
        source = html.escape(_behind_jupyter(self.port, self._token) or self.address, quote=True)
        return (
            f'<iframe title="KV Theater" src="{source}" allow="clipboard-write; fullscreen" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
            f'<p><a href="{source}" target="_blank" rel="noopener">Open in a tab of its own</a>. If the '
            f"frame is empty, the notebook runs on another machine: forward its port {self.port}, or install "
            "jupyter-server-proxy there.</p>"
        )


def show(model: str = "bundled", *, height: int = HEIGHT, **options: Any) -> ShownPage:
    """Serve a model from a separate process and show the page in this notebook's cell.

    The server listens on the loopback interface, requires its own token and ends with the notebook. A second call with
    the same model and options reuses the server. The page is served through Colab's proxy in Colab, through
    jupyter-server-proxy in a JupyterLab that has it, and otherwise directly from 127.0.0.1.

    Args:
        model: folder or hub name, as for `kvtheater serve`.
        height: height of the frame, in CSS pixels.
        options: flags of `kvtheater serve`, for example `block_size=4` or `enforce_eager=True`.

    Raises:
        RuntimeError: the server does not start.
        ImportError: another package named `app` hides the server's.
    """
    if hidden := hidden_by("app"):
        raise ImportError(hidden)
    arguments = (model, "--port", "0", *_flags(options), "--host", "127.0.0.1")
    found = _shown.get(arguments)
    if found is None or not found.is_running:
        found = _shown[arguments] = ShownPage(arguments, height)
        atexit.register(found.close)
    found.height = height
    return found


def _flags(options: dict[str, Any]) -> list[str]:
    flags: list[str] = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            flags += [f"--{flag}", str(value)]
    return flags


def _behind_jupyter(port: int, token: str) -> str | None:
    """Return the path of the page on Jupyter's server, or None if that does not forward ports."""
    if find_spec("jupyter_server_proxy") is None or "VSCODE_PID" in os.environ:
        return None
    base = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
    if base is None:
        from jupyter_server.serverapp import list_running_servers

        servers = (one for one in list_running_servers() if str(one["pid"]) == os.environ.get("JPY_PARENT_PID"))
        base = next((str(one["base_url"]) for one in servers), None)
    return base and f"{base}proxy/{port}/{token}/"
