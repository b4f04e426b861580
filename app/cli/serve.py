"""`kvtheater serve`: the server."""

from __future__ import annotations

import argparse
import secrets
import signal
import threading
import webbrowser
from typing import Any

from app.cli.loading import load
from app.cli.options import UserError, add_command, add_engine_options, add_model_options, engine_config
from app.settings import ServerSettings, is_loopback


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "serve",
        "serve a model's KV cache to browsers",
        "  kvtheater serve\n"
        "  kvtheater serve Qwen/Qwen3-0.6B --dtype bfloat16 --num-blocks 256\n"
        "  kvtheater serve --host 0.0.0.0        for a class: others need the token in the printed address\n",
    )
    parser.add_argument(
        "model", nargs="?", default="bundled", metavar="MODEL", help="folder or hub name (default: the bundled model)"
    )
    group = parser.add_argument_group("server")
    group.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    group.add_argument("--port", type=int, help="0 for any free one (default: 8765, or the next that is free)")
    group.add_argument(
        "--max-theaters", type=int, default=ServerSettings().max_theaters, metavar="N", help="(default: %(default)s)"
    )
    group.add_argument("--open", action="store_true", help="open the page in a browser")
    add_model_options(parser)
    add_engine_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    from app.serving import Listener, PortError, bind

    if arguments.max_theaters < 1:
        raise UserError(f"--max-theaters must be at least 1, not {arguments.max_theaters}")
    settings = ServerSettings(
        host=arguments.host,
        token=None if is_loopback(arguments.host) else secrets.token_urlsafe(24),
        config=engine_config(arguments),
        max_theaters=arguments.max_theaters,
    )
    stop = threading.Event()
    try:
        bound = bind(arguments.host, arguments.port)  # before the model: a port that is taken should be known at once
    except PortError as error:
        raise UserError(str(error)) from error
    with bound:
        model = load(arguments.model, arguments.dtype, arguments.device, settings)
        _check(settings, model.facts.max_position)
        from app.server import create_app

        app, _ = create_app(model, settings)
        listener = Listener(app, bound)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    address = _address(settings, listener.port)
    print(f"{model.facts.name} on {model.machine.device}: {address}", flush=True)
    if settings.token:
        print("whoever has this address can use the server; it holds the token", flush=True)
    if arguments.open:
        webbrowser.open(address)
    stop.wait()
    listener.close()
    return 0


def _check(settings: ServerSettings, max_position: int) -> None:
    """Say now what would otherwise refuse every theater."""
    try:
        settings.config.resolved(max_position)
    except ValueError as error:  # ConfigError
        raise UserError(str(error)) from error


def _address(settings: ServerSettings, port: int) -> str:
    host = settings.host.strip("[]")
    if host in ("0.0.0.0", "::", ""):
        import socket

        host = socket.gethostname()
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}/" + (f"?token={settings.token}" if settings.token else "")
