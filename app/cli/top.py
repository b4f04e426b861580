"""`kvtheater top`: a server's cache in a terminal, by its metrics: for who has only ssh."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from app.cli.options import UserError, add_command

if TYPE_CHECKING:
    from rich.table import Table

    from engine.attach.metrics import Look

BAR = 24  # columns
UNKNOWN = "unknown"
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
USAGE, PREEMPTIONS = "vllm:kv_cache_usage_perc", "vllm:num_preemptions_total"
HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
PROMPT, GENERATED = "vllm:prompt_tokens_total", "vllm:generation_tokens_total"


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "top",
        "a server's KV cache in a terminal, by its metrics",
        "  kvtheater top                              this machine's kvtheater serve, on port 8765\n"
        "  kvtheater top http://127.0.0.1:8000        a vLLM\n"
        "  kvtheater top --once                       one look, for a script\n",
    )
    parser.add_argument(
        "url", nargs="?", default="http://127.0.0.1:8765", metavar="URL", help="of the server (default: %(default)s)"
    )
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="SECONDS", help="between two looks (default: %(default)s)"
    )
    parser.add_argument("--once", action="store_true", help="look once and end")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Until Ctrl-C, or once."""
    if not 0.1 <= arguments.interval <= 3600:
        raise UserError(f"--interval must be from 0.1 to 3600 seconds, not {arguments.interval}")
    url = _metrics_of(arguments.url)
    from rich.console import Console
    from rich.live import Live

    from engine.attach.metrics import MetricsError, look

    console = Console()
    try:
        before, at = look(url), time.monotonic()
        if arguments.once:
            console.print(drawn(url, before, None, 0.0))
            return 0
        with Live(drawn(url, before, None, 0.0), console=console, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(arguments.interval)
                now, then = look(url), time.monotonic()
                live.update(drawn(url, now, before, then - at), refresh=True)
                before, at = now, then
    except MetricsError as error:
        raise UserError(str(error)) from error


def _metrics_of(url: str) -> str:
    """Raises UserError: it is no address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(f"{url} is no address of a server: http://HOST:PORT")
    return urlunsplit(parts if parts.path.rstrip("/") else parts._replace(path="/metrics"))


def drawn(url: str, now: Look, before: Look | None, seconds: float) -> Table:
    """One look, a row a rank; what the server does not say is unknown. Rates are those since the look before."""
    from rich.table import Table

    pool = f"{now.num_blocks:,} blocks of {now.block_size} tokens" if now.num_blocks and now.block_size else UNKNOWN
    table = Table(title=f"{now.model or url} · pool of a rank: {pool}", title_justify="left")
    for name in ("rank", "held", "running", "waiting", "hits", "preemptions", "prompt/s", "generated/s"):
        table.add_column(name, justify="left" if name == "held" else "right", no_wrap=True)
    for rank, numbers in sorted(now.by_rank.items()):
        last = before.by_rank.get(rank, {}) if before else {}
        table.add_row(
            str(rank),
            _bar(numbers.get(USAGE)),
            _count(numbers.get(RUNNING)),
            _count(numbers.get(WAITING)),
            _share(numbers, last),
            _count(numbers.get(PREEMPTIONS)),
            _rate(PROMPT, numbers, last, seconds),
            _rate(GENERATED, numbers, last, seconds),
        )
    if not now.by_rank:
        table.caption = "no numbers yet: nothing has run there"
    return table


def _bar(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    full = round(BAR * min(max(share, 0.0), 1.0))
    return f"{'█' * full}{'░' * (BAR - full)} {share:6.1%}"


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _share(numbers: dict[str, float], last: dict[str, float]) -> str:
    """Tokens that hit over tokens asked for: since the look before if any were, else since the server began."""
    if HITS not in numbers or QUERIES not in numbers:
        return UNKNOWN
    hits, queries = (numbers[name] - last.get(name, 0.0) for name in (HITS, QUERIES))
    if queries <= 0:
        hits, queries = numbers[HITS], numbers[QUERIES]
    return f"{hits / queries:.1%}" if queries > 0 else "–"


def _rate(name: str, numbers: dict[str, float], last: dict[str, float], seconds: float) -> str:
    if name not in numbers:
        return UNKNOWN
    if name not in last or seconds <= 0 or numbers[name] < last[name]:  # a server that began anew counts from 0
        return "–"
    return f"{(numbers[name] - last[name]) / seconds:,.0f}"
