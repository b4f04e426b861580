"""`kvtheater trace check`: whether a file conforms to the trace format."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from app.cli.options import UserError, add_command, file_errors
from app.cli.terminal import say
from engine.trace.check import Counts, check


def add_parser(what: Any) -> None:
    """The subcommand of `trace`."""
    parser = add_command(
        what,
        "check",
        "check traces byte by byte: frames, records, state, memory figures, arrays; exit status 1 for a finding",
        "  kvtheater trace check run.kvtrace\n  kvtheater trace check --limit 100 traces/*.kvtrace\n",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="findings printed per file (default: 20)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check each file. Exit status 0 if all are sound."""
    if arguments.limit < 1:
        raise UserError(f"--limit must be at least 1, not {arguments.limit}")
    sound = [_check(path, arguments.limit) for path in arguments.files]
    return 0 if all(sound) else 1


def _check(path: Path, limit: int) -> bool:
    counts = Counts()
    with file_errors("read", path), _Progress(path) as progress:
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


class _Progress:
    """A bar on a terminal, for large files."""

    def __init__(self, path: Path) -> None:
        self._bar: Any = None
        if sys.stderr.isatty() and path.is_file() and path.stat().st_size > 1 << 24:
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(path.name)

    def __enter__(self) -> Callable[[int, int], None] | None:
        if self._bar is None:
            return None
        self._bar.start()
        return lambda done, total: self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()
