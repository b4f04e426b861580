"""`kvtheater export`: a recorded run as one HTML file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from app.cli.options import UserError, add_command
from app.cli.terminal import say
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "export",
        "write a recorded run as one HTML file that needs no server and no network",
        "  kvtheater export run.kvtrace -o run.html\n"
        "  kvtheater generate 'Once upon a time' --record run.kvtrace && kvtheater export run.kvtrace\n",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the HTML file (default: FILE with .html at its end)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Export. 0 when the trace is sound, 1 when it is damaged (what came before the damage is in the page)."""
    from app.onefile import TooLarge, export_page

    path: Path = arguments.file
    output: Path = arguments.output or path.with_suffix(".html")
    if output.exists() and not arguments.force:
        raise UserError(f"{output} exists already; choose another name, or --force to overwrite it")
    try:
        with TraceReader(path) as log:
            page, damage = export_page(log), log.damage
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except (TraceFormatError, TooLarge) as error:
        raise UserError(f"{path}: {error}") from error
    unfinished = output.with_name(output.name + ".part")
    try:
        unfinished.write_bytes(page)
        unfinished.replace(output)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UserError(f"cannot write {output}: {error.strerror or error}") from error
    say(f"{output}: {len(page):,} bytes")
    if damage:
        say(f"kvtheater: {path} is damaged: {damage}", to=sys.stderr)
        return 1
    return 0
