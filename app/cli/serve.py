"""`kvtheater serve`: the server."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from app.cli.listening import add_server_options, bound_socket, serve_until_stopped, server_settings
from app.cli.loading import load
from app.cli.options import UserError, add_command, add_engine_options, add_model_options, engine_config
from app.settings import ServerSettings


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
    add_server_options(parser).add_argument(
        "--max-theaters", type=int, default=ServerSettings().max_theaters, metavar="N", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--lessons", type=Path, metavar="DIR", help="a folder of your own lessons (kvtheater lesson new)"
    )
    add_model_options(parser)
    add_engine_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    if arguments.max_theaters < 1:
        raise UserError(f"--max-theaters must be at least 1, not {arguments.max_theaters}")
    if arguments.lessons is not None and not arguments.lessons.is_dir():
        raise UserError(f"--lessons {arguments.lessons} is no folder")
    settings = server_settings(
        arguments,
        config=engine_config(arguments),
        max_theaters=arguments.max_theaters,
        model=arguments.model,
        lessons=arguments.lessons,
    )
    with bound_socket(arguments) as bound:
        model = load(arguments.model, arguments.dtype, arguments.device, settings, aloud=True)
        try:
            model.check(settings.config)  # now, not when the first page asks for a theater
        except ValueError as error:  # ConfigError
            raise UserError(str(error)) from error
        from app.server import create_app

        app = create_app(model, settings)
        if not settings.config.enforce_eager:
            model.compile_in_background()
        what = f"{model.facts.name} on {model.machine.device}, {model.compared()}"
        serve_until_stopped(app, bound, settings, what, arguments.open)
    if model.is_compiling:  # it would hold the process for seconds; what it has not written it makes again
        sys.stdout.flush()
        os._exit(0)
    return 0
