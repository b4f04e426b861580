"""Opening of a trace for a command. Every error in the file becomes a user error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.cli.options import UserError, file_errors, user_errors
from app.cli.terminal import say
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader
from engine.trace.observing import UNSAID
from engine.trace.state import TraceStateError


@contextmanager
def open_trace(path: Path) -> Iterator[TraceReader]:
    """Yield the open trace. A damaged trace opens too; its `damage` says where the readable part ends.

    Raises:
        UserError: the file cannot be read, is not a trace, or has a record that cannot be read.
    """
    with user_errors(TraceFormatError, of=path), file_errors("read", path):
        reader = TraceReader(path)
    with reader:
        try:
            yield reader
        except TraceFormatError as error:  # the checksum is right, the record is not
            raise UserError(f"{path}: {error}") from error
        except TraceStateError as error:
            hint = "`kvtheater trace check` lists all errors"
            raise UserError(f"{path} contradicts itself: {error}; {hint}") from error


def refuse_monitored(reader: TraceReader, instead: str) -> None:
    """Raise UserError for a monitored server's log, which lacks what the command needs. `instead`: the alternative."""
    if reader.header.observed is not None:
        raise UserError(f"{reader.path}: {UNSAID}; {instead}")


def damage_status(path: Path, damage: str | None) -> int:
    """Return the exit status of a command that has read a trace: 1, with a message, if the trace is damaged."""
    if damage is None:
        return 0
    sys.stdout.flush()
    say(f"kvtheater: {path} is damaged: {damage}", to=sys.stderr)
    return 1
