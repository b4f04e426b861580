"""`kvtheater top`: a server's cache in a terminal, from its metrics, for example over ssh."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from app.cli.options import UserError, add_command, user_errors

if TYPE_CHECKING:
    from rich.console import Group

    from engine.observe.monitor.metrics import MetricsReading


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "top",
        "show a server's KV cache in the terminal, from its metrics",
        "  kvtheater top                              this machine's kvtheater serve, on port 8765\n"
        "  kvtheater top http://127.0.0.1:8000        a vLLM\n"
        "  kvtheater top --once                       one sample, for a script\n",
    )
    parser.add_argument(
        "url",
        nargs="?",
        default="http://127.0.0.1:8765",
        metavar="URL",
        help="address of the server (default: %(default)s)",
    )
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="SECONDS", help="time between two samples (default: %(default)s)"
    )
    parser.add_argument("--once", action="store_true", help="print one sample and end")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the tables until Ctrl-C, or once. Raises UserError if the first sample has no metrics."""
    if not 0.1 <= arguments.interval <= 3600:
        raise UserError(f"--interval must be from 0.1 to 3600 seconds, not {arguments.interval}")
    from rich.console import Console
    from rich.live import Live

    from engine.observe.monitor.metrics import MetricsError

    console = Console()
    with user_errors(MetricsError):
        screen = Screen(_metrics_url(arguments.url))
    if arguments.once:
        console.print(screen.frame)
        return 0
    with Live(screen.frame, console=console, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(arguments.interval)
            screen.update()
            live.update(screen.frame, refresh=True)


class Screen:
    """Tables of a server's metrics. After a failed reading, they show the last good one with a notice."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the first reading. `clock` returns seconds.

        Raises:
            MetricsError: the server has no metrics.
        """
        from engine.observe.monitor.metrics import read_metrics

        self._url, self._clock = url, clock
        self._now = read_metrics(url)
        self._before: MetricsReading | None = None
        self._at, self._seconds = clock(), 0.0  # time of the last reading, and seconds since the previous one
        self._restarted = self._failed = ""  # notices

    @property
    def frame(self) -> Group:
        """Content of the screen."""
        from app.cli.top_tables import draw

        return draw(self._url, self._now, self._before, self._seconds, self._failed or self._restarted)

    def update(self) -> None:
        """Take a reading."""
        from app.cli.top_tables import baseline
        from engine.observe.monitor.metrics import MetricsError, read_metrics

        try:
            found = read_metrics(self._url)
        except MetricsError as error:
            since = time.strftime("%H:%M:%S", time.localtime(time.time() - (self._clock() - self._at)))
            self._failed = f"values of {since}; since then {error}"
            return
        at = self._clock()
        self._before, self._now = self._now, found
        self._at, self._seconds, self._failed = at, at - self._at, ""
        for rank, numbers in self._before.by_rank.items():
            if numbers and not baseline(found.by_rank.get(rank, {}), numbers):
                self._restarted = f"the server restarted before {time.strftime('%H:%M:%S')}: its counters fell"


def _metrics_url(url: str) -> str:
    """Return the URL of a server's metrics. Raises UserError if `url` is not an HTTP address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(f"{url} is not a server's address of the form http://HOST:PORT")
    return urlunsplit(parts if parts.path.rstrip("/") else parts._replace(path="/metrics"))
