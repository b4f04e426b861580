"""Button in JupyterLab, without Jupyter: the proxy's settings, and a server that accepts them."""

import tomllib
from argparse import Namespace
from importlib import import_module
from pathlib import Path

from app.cli import build_parser
from app.cli.listening import server_settings
from app.ground.callers import bearer
from tests.conftest import ROOT

# settings of jupyter-server-proxy 4.6
KNOWN = {"command", "environment", "request_headers_override", "timeout", "launcher_entry"}
VARIABLES = {"PYTHONPATH", "PYTHONSAFEPATH", "KVTHEATER_TOKEN"}


def test_the_entry_point_has_the_settings_of_jupyter_server_proxy(monkeypatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["entry-points"]["jupyter_serverproxy_servers"]["kvtheater"].partition(":")
    answer = getattr(import_module(module), name)()
    assert set(answer) == KNOWN and set(answer["environment"]) == VARIABLES
    assert Path(answer["launcher_entry"]["icon_path"]).read_text(encoding="utf-8").startswith("<svg")
    assert answer["timeout"] > 5  # seconds; Jupyter's default of 5 is too short on a busy machine

    _, module_flag, package, *arguments = [word.format(port=4321) for word in answer["command"]]
    assert (module_flag, package) == ("-m", "app")
    for variable, value in answer["environment"].items():
        monkeypatch.setenv(variable, value)
    parsed = build_parser(arguments).parse_args(arguments)
    assert parsed.host is None  # the default is the loopback interface
    settings = server_settings(Namespace(**vars(parsed) | {"host": "127.0.0.1"}))
    header = answer["request_headers_override"]["Authorization"]
    assert parsed.port == 4321 and settings.token
    assert settings.token == bearer({"HTTP_AUTHORIZATION": header}) and len(settings.token) >= 16
