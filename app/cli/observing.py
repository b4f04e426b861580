"""Options for observing a server from outside: its access log, and spans of its requests."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from app.cli.options import UserError

if TYPE_CHECKING:
    from app.metrics.spans import RequestSpans
    from app.transport.access_log import AccessLog


def add_observing_options(group: Any) -> None:
    """Add `--access-log` and `--otlp-traces-endpoint` to the server's group."""
    group.add_argument(
        "--access-log",
        metavar="FILE",
        help="add a line of JSON for each HTTP request to this file; - is the standard output (default: none)",
    )
    group.add_argument(
        "--otlp-traces-endpoint",
        metavar="URL",
        help="send a span for each request to this OpenTelemetry receiver, for example http://localhost:4318 (needs "
        "kvtheater[otlp]; default: none)",
    )


def access_log(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[AccessLog | None]:
    """Open and return the configured log.

    Raises:
        UserError: the log cannot be written.
    """
    if arguments.access_log is None:
        return contextlib.nullcontext()
    from app.ground.callers import JOIN
    from app.transport.access_log import AccessLog

    try:
        return AccessLog.open(arguments.access_log, secret=(JOIN,))
    except OSError as error:
        raise UserError(f"--access-log {arguments.access_log}: {error.strerror or error}") from error


@contextlib.contextmanager
def request_spans(arguments: argparse.Namespace) -> Iterator[RequestSpans | None]:
    """Yield the spans for the configured receiver, or None. At the end, the last ones are flushed.

    Raises:
        UserError: the address is invalid, or a package is not installed.
    """
    endpoint = arguments.otlp_traces_endpoint
    if endpoint is None:
        yield None
        return
    try:
        from app.metrics.otlp import spans_to

        spans = spans_to(endpoint)
    except ImportError as error:
        raise UserError(
            f"--otlp-traces-endpoint needs a missing package ({error.name}): pip install 'kvtheater[otlp]', "
            "or opentelemetry-exporter-otlp-proto-grpc to speak gRPC"
        ) from error
    except ValueError as error:
        raise UserError(f"--otlp-traces-endpoint: {error}") from error
    try:
        yield spans
    finally:
        spans.close()
