"""`kvtheater.show`: flags, the address of the frame, and a server that ends with the notebook."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from types import ModuleType
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest

from kvtheater import ShownPage, shown_page
from tests.conftest import ROOT


class FixedPage(ShownPage):
    """A page whose server is not started."""

    def __init__(self) -> None:
        self.height, self.port, self._token = 500, 4321, "secret"

    is_running = True  # type: ignore[assignment]


def test_options_become_flags() -> None:
    options: dict[str, Any] = {"block_size": 4, "enforce_eager": True, "enable_prefix_caching": False, "dtype": None}
    assert shown_page._flags(options) == ["--block-size", "4", "--enforce-eager", "--no-enable-prefix-caching"]


@pytest.mark.parametrize(
    ("environment", "has_proxy", "source"),
    [
        ({}, False, "http://127.0.0.1:4321/secret/"),
        ({"JUPYTERHUB_SERVICE_PREFIX": "/user/ann/"}, False, "http://127.0.0.1:4321/secret/"),
        ({"JUPYTERHUB_SERVICE_PREFIX": "/user/ann/"}, True, "/user/ann/proxy/4321/secret/"),
        ({"JPY_PARENT_PID": "7"}, True, "/lab/proxy/4321/secret/"),
        ({"JPY_PARENT_PID": "8"}, True, "http://127.0.0.1:4321/secret/"),
        ({"JPY_PARENT_PID": "7", "VSCODE_PID": "9"}, True, "http://127.0.0.1:4321/secret/"),
    ],
)
def test_the_frame_uses_the_proxy_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], has_proxy: bool, source: str
) -> None:
    """Given jupyter-server-proxy, JupyterLab shows a port below its own address."""
    serverapp = ModuleType("jupyter_server.serverapp")
    serverapp.list_running_servers = lambda: [{"pid": 7, "base_url": "/lab/"}]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jupyter_server.serverapp", serverapp)
    monkeypatch.setattr(shown_page, "find_spec", lambda name: has_proxy or None)
    for name in ("JUPYTERHUB_SERVICE_PREFIX", "JPY_PARENT_PID", "VSCODE_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    shown = FixedPage()._repr_html_()
    assert f'src="{source}"' in shown and f'href="{source}"' in shown and "height: 500px" in shown


def test_colab_shows_the_port_in_its_own_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotImplementedError):  # IPython then uses `_repr_html_`
        FixedPage()._ipython_display_()
    output = Mock()
    monkeypatch.setitem(sys.modules, "google", ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.colab", Mock(output=output))
    FixedPage()._ipython_display_()
    output.serve_kernel_port_as_iframe.assert_called_once_with(4321, path="/secret/", height="500")


@pytest.mark.slow
def test_a_server_requires_its_token_and_ends_with_its_notebook() -> None:
    code = "import kvtheater, time; print(kvtheater.show(enforce_eager=True).address, flush=True); time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as notebook:
        assert notebook.stdout is not None
        address = notebook.stdout.readline().strip()
        assert urllib.request.urlopen(address).status == 200
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address.rpartition("/")[0].rpartition("/")[0] + "/")
        notebook.kill()
    port = urlsplit(address).port
    assert port is not None
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.2)
    pytest.fail("the server outlives its notebook")


@pytest.mark.slow
def test_unknown_flags_are_reported() -> None:
    with pytest.raises(RuntimeError, match="did you mean --block-size"):
        shown_page.show(blocksize=4)
