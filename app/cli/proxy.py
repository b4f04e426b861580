"""`kvtheater proxy`: forwards an agent's requests to another server, and records them for later analysis."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import secrets
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from app.cli.listening import bound_socket
from app.cli.options import UserError, add_command, file_errors
from app.cli.terminal import say
from app.proxy.dumps import forbid_dumps

if TYPE_CHECKING:
    from app.proxy.exchange import Mode


# Seconds after which the thread that records requests must release the GIL to the event loop. Python's default of 5 ms
# would account for most of the proxy's latency.
SWITCH_INTERVAL = 0.0005


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "proxy",
        "forward requests to another server's API and record them",
        "  kvtheater proxy --upstream https://api.anthropic.com\n"
        "  ANTHROPIC_BASE_URL=http://127.0.0.1:8765 claude\n"
        "\n"
        "  kvtheater proxy --upstream http://127.0.0.1:8000 --private -o traffic.jsonl\n"
        "  OPENAI_BASE_URL=http://127.0.0.1:8765/v1 my-agent\n"
        "\n"
        "requests and answers pass byte for byte; keys are not stored; the proxy listens on this machine only\n",
    )
    parser.add_argument("--upstream", required=True, metavar="URL", help="the server that answers: http(s)://HOST/PATH")
    parser.add_argument("--port", type=int, help="port, 0 for any free one (default: 8765, or the next free one)")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("traffic.jsonl"), metavar="FILE",
        help="file; each request to a model appends a line: path, time, request, usage (default: %(default)s)",
    )  # fmt: skip
    storage = parser.add_mutually_exclusive_group()
    storage.add_argument(
        "--keep-bodies",
        action="store_true",
        help="write complete bodies (default: without pictures, user ids and anything that looks like a secret)",
    )
    storage.add_argument(
        "--private", action="store_true", help="write no texts: roles, and the hash and length of other values"
    )
    parser.set_defaults(run=run, host="127.0.0.1")


def run(arguments: argparse.Namespace) -> int:
    """Forward requests until Ctrl-C or SIGTERM."""
    upstream = urlsplit(arguments.upstream)
    if upstream.scheme not in ("http", "https") or not upstream.hostname or upstream.query or upstream.fragment:
        raise UserError(f"--upstream {arguments.upstream} is not a URL of the form https://HOST/PATH")
    if importlib.util.find_spec("aiohttp") is None:
        raise UserError("the proxy needs aiohttp: pip install 'kvtheater[proxy]'")
    forbid_dumps()
    with bound_socket(arguments) as bound:
        from app.proxy.exchange import Exchanges
        from app.proxy.server import Proxy

        mode: Mode = "private" if arguments.private else "whole" if arguments.keep_bodies else "redacted"
        with file_errors("write", arguments.output):
            exchanges = Exchanges(arguments.output, mode, secrets.token_bytes(32))

        async def serve() -> None:
            stop = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            line = f"a proxy for {arguments.upstream}: http://127.0.0.1:{bound.getsockname()[1]}"
            watch = f"to analyze the prompts: kvtheater serve --traffic {arguments.output}"
            await Proxy(arguments.upstream, exchanges).run(bound, stop, lambda: say(line, watch, flush=True))

        try:
            sys.setswitchinterval(SWITCH_INTERVAL)
            asyncio.run(serve())
        finally:
            exchanges.close()
    say(f"{exchanges.count} requests in {arguments.output}", flush=True)
    return 0
