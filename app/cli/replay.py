"""`kvtheater replay`: the page over recordings, without a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from app.cli.listening import add_server_options, bound_socket, serve_until_stopped, server_settings
from app.cli.options import UserError, add_command, file_errors, user_errors
from app.recordings.shelf import SUFFIX, traces_in


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "replay",
        "show recorded runs in the page, without a model",
        "  kvtheater replay                    the recordings of this machine, and those that come with the program\n"
        "  kvtheater replay run.kvtrace --open\n"
        "  kvtheater replay traces/            every .kvtrace file of a folder\n"
        "  kvtheater replay --lessons recorded/    lessons too, recorded by kvtheater lesson record\n",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="FILE|DIR", help=f"{SUFFIX} files, or folders of them")
    parser.add_argument("--lessons", type=Path, metavar="DIR", help="folder written by kvtheater lesson record")
    add_server_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    files = _files(arguments.paths)
    settings = server_settings(arguments, recorded_lessons=arguments.lessons)
    with bound_socket(arguments) as bound:
        from app.models.model_entry import ModelEntry
        from app.models.registry import Models
        from app.server.application import create_app

        with user_errors(ValueError):  # invalid recorded lessons
            app = create_app(Models(ModelEntry(None)), settings, files)
        # an address that names the first recording opens it even if the browser remembers another one
        first = app.extensions["kvtheater.library"].first_given_file()
        view = {"recording": first, **({"detail": "library"} if len(files) > 1 else {})} if first else {}
        if arguments.lessons is not None and not files:
            view = {"distance": "learn"}
        what = f"{len(files)} recording{'s' if len(files) != 1 else ''}" if arguments.paths else "recordings"
        serve_until_stopped(app, bound, settings, what, arguments.open, **view)
    return 0


def _files(paths: list[Path]) -> list[Path]:
    """Return the absolute paths of the trace files and of those in the folders."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = traces_in(path)
            if not found:
                raise UserError(f"there is no {SUFFIX} file in {path}")
            files += found
        else:
            _check(path)
            files.append(path)
    return [path.resolve() for path in files]


def _check(path: Path) -> None:
    """Raise UserError unless the file is a trace."""
    from engine.trace.codec import TraceFormatError
    from engine.trace.log import TraceReader

    with user_errors(TraceFormatError, of=path), file_errors("read", path):
        TraceReader(path, verify=False).close()
