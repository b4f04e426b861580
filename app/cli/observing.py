"""How a server is watched from outside: its access log."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, Any

from app.cli.options import UserError

if TYPE_CHECKING:
    from app.transport.access_log import AccessLog


def add_observing_options(group: Any) -> None:
    """The flags, to the server's group."""
    group.add_argument(
        "--access-log",
        metavar="FILE",
        help="add a line of JSON for each HTTP request to this file; - is the standard output (default: none)",
    )


def access_log(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[AccessLog | None]:
    """The log that is asked for, open.

    Raises:
        UserError: it cannot be written.
    """
    if arguments.access_log is None:
        return contextlib.nullcontext()
    from app.security import JOIN
    from app.transport.access_log import AccessLog

    try:
        return AccessLog.open(arguments.access_log, secret=(JOIN,))
    except OSError as error:
        raise UserError(f"--access-log {arguments.access_log}: {error.strerror or error}") from error
