"""`kvtheater serve`: the server."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from app.cli.listening import add_server_options, bound_socket, serve_until_stopped, server_settings
from app.cli.loading_thread import LoadingThread
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
    """Serve until Ctrl-C or SIGTERM. The port answers before the model is there."""
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
        from app.served import Served
        from app.server import create_app

        served = Served.loading(arguments.model)
        app = create_app(served, settings)
        loading = LoadingThread(arguments, settings, served)
        what = f"{arguments.model}, being opened"
        if not serve_until_stopped(app, bound, settings, what, arguments.open, loading.start):
            assert loading.error is not None  # nothing else ends it
            raise loading.error
    if loading.is_at_work:  # it would hold the process for seconds; what a compiler has not written it makes again
        sys.stdout.flush()
        os._exit(0)
    return 0
