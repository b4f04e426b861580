"""`kvtheater trace check`: check that files conform to the trace format."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from app.cli.options import UserError, add_command, file_errors
from app.cli.terminal import progress_bar, say
from engine.trace.check import Counts, check


def add_parser(commands: Any) -> None:
    """Add the subcommand to those of `trace`."""
    parser = add_command(
        commands,
        "check",
        "check traces byte by byte: frames, records, state, memory figures, arrays; exit status 1 for a finding",
        "  kvtheater trace check run.kvtrace\n  kvtheater trace check --limit 100 traces/*.kvtrace\n",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="findings printed per file (default: 20)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check each file. Exit status 0 if all are sound, else 1."""
    if arguments.limit < 1:
        raise UserError(f"--limit must be at least 1, not {arguments.limit}")
    sound = [_check(path, arguments.limit) for path in arguments.files]
    return 0 if all(sound) else 1


def _check(path: Path, limit: int) -> bool:
    counts = Counts()
    with file_errors("read", path), _progress(path) as progress:
        found = check(path, counts, progress)
        shown = list(islice(found, limit))
        more = sum(1 for _ in found)
    for finding in shown:
        say(f"{path}: {finding}")
    if more:
        say(f"{path}: and {more} more")
    if not shown:
        arrays = f", arrays of {counts.num_captures}" if counts.num_captures else ""
        say(f"{path}: sound: {counts.num_records} records{arrays}, {counts.num_bytes:,} bytes")
    return not shown


@contextmanager
def _progress(path: Path) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that updates a progress bar; None for a file up to 16 MiB, and without a terminal."""
    if not (sys.stderr.isatty() and path.is_file() and path.stat().st_size > 1 << 24):
        yield None
        return
    with progress_bar() as bar:
        task = bar.add_task(path.name)
        yield lambda done, total: bar.update(task, completed=done, total=total)
