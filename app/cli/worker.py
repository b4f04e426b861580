"""`kvtheater worker`: a process that serves the clients of a class that is too large for the server's process."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from typing import Any

from app.cli.listening import bound_socket, check_queue
from app.cli.options import UserError, add_command
from app.cli.terminal import say


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "worker",
        "hold the sockets of a large class, for a server on the same message queue",
        "  redis-server --save '' &                                   without persistence\n"
        "  kvtheater serve --class --message-queue redis://localhost\n"
        "  kvtheater worker --message-queue redis://localhost --port 8801\n"
        "  kvtheater worker --message-queue redis://localhost --port 8802\n"
        "\n"
        "put a proxy in front that always sends a browser to the same worker, as examples/nginx.conf does\n",
    )
    parser.add_argument(
        "--message-queue", required=True, metavar="URL", help="the server's Redis: redis://HOST:PORT/DATABASE"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, help="port, 0 for any free one (default: 8765, or the next free one)")
    parser.add_argument(
        "--server",
        metavar="URL",
        help="HTTP address of the server (default: the address that it reports, which is valid on its own machine)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM, or until the server rejects this worker."""
    check_queue(arguments.message_queue, is_server=False)
    if arguments.server is not None and not arguments.server.startswith("http://"):
        raise UserError(f"--server {arguments.server} is not of the form http://HOST:PORT")
    with bound_socket(arguments) as bound:
        from app.server.worker import create_worker

        stop = threading.Event()
        reasons: list[str] = []

        def on_refused(reason: str) -> None:
            reasons.append(reason)
            stop.set()

        def on_signal(number: int, _: Any) -> None:
            if stop.is_set():  # a second signal, during the shutdown
                os._exit(128 + number)
            stop.set()

        app = create_worker(arguments.message_queue, on_refused, arguments.server)
        host, port = bound.getsockname()[:2]
        transport, link = app.extensions["kvtheater.transport"], app.extensions["kvtheater.link"]
        thread = transport.start(app, bound)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)
        say(f"a web worker: http://{f'[{host}]' if ':' in host else host}:{port}/", flush=True)
        link.start()
        stop.wait()
        transport.refuse_more()
        link.stop()
        transport.stop()
        thread.join()
    if reasons:
        raise UserError(reasons[0])
    say("stopped", flush=True)
    return 0
