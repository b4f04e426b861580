"""Shared code of the commands that serve: a server's options, its socket, and serving until it is stopped."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from app.cli.options import UserError, user_errors
from app.cli.terminal import counted, say
from app.ground.callers import PREFIX
from app.ground.interrupts import exit_on_interrupt
from app.ground.paths import data_dir
from app.ground.settings import MIB, ServerSettings, is_loopback
from app.ground.working import working

if TYPE_CHECKING:
    from flask import Flask

    from app.server.listener import Listener

TOKEN_VARIABLE = "KVTHEATER_TOKEN"


def add_server_options(parser: argparse.ArgumentParser, default_host: str | None = "127.0.0.1") -> Any:
    """Add the options of address and recordings. Returns their group, to which the caller may add others.

    `default_host` None: the caller chooses the address if --host is not set.
    """
    group = parser.add_argument_group("server")
    group.add_argument("--host", default=default_host, help="address to listen on (default: 127.0.0.1)")
    group.add_argument("--port", type=int, help="port, 0 for any free one (default: 8765, or the next free one)")
    group.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help=f"folder of recordings (default: {data_dir()})".replace("%", "%%"),
    )
    group.add_argument(
        "--root-path",
        type=_root_path,
        default="",
        metavar="PATH",
        help="path of the server behind a proxy, for example /kv (default: the header X-Forwarded-Prefix)",
    )
    group.add_argument(
        "--allowed-hosts",
        type=_names,
        default=(),
        metavar="NAME,…",
        help="additional host names of the server, for example host.docker.internal (* for any, which lets pages of "
        "other sites reach the server by DNS rebinding)",
    )
    defaults = ServerSettings()
    group.add_argument(
        "--max-recordings",
        type=int,
        default=defaults.max_recordings,
        metavar="N",
        help="maximum number of recordings (default: %(default)s)",
    )
    group.add_argument(
        "--max-library-mib",
        type=int,
        default=defaults.max_library_bytes // MIB,
        metavar="N",
        help="maximum size of all recordings together (default: %(default)s)",
    )
    group.add_argument("--open", action="store_true", help="open the page in a browser")
    return group


def _root_path(text: str) -> str:
    path = text.rstrip("/")
    if path and not PREFIX.fullmatch(path):
        raise argparse.ArgumentTypeError(f"{text!r} is not a path such as /kv or /user/ann/kv")
    return path


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


def server_settings(arguments: argparse.Namespace, **more: Any) -> ServerSettings:
    """Return the server settings of the options. `more`: fields that these options do not set.

    Raises:
        UserError: a limit is below 0, or a folder cannot be used.
    """
    for name in ("max_recordings", "max_library_mib"):
        if (limit := getattr(arguments, name)) < 0:
            raise UserError(f"--{name.replace('_', '-')} must be at least 0, not {limit}")
    # clients of a web worker may be on other machines
    is_local = is_loopback(arguments.host) and more.get("message_queue") is None
    token = _token_of_environment() or (None if is_local else secrets.token_urlsafe(24))
    return ServerSettings(
        host=arguments.host,
        token=token,
        root_path=arguments.root_path,
        allowed_hosts=arguments.allowed_hosts,
        data_dir=_data_dir(arguments.data_dir),
        max_recordings=arguments.max_recordings,
        max_library_bytes=arguments.max_library_mib * MIB,
        **more,
    )


def _token_of_environment() -> str | None:
    """Return the token in the environment, which other users cannot read, unlike a command line; else None.

    Raises:
        UserError: the token is too short, or has characters that a URL would escape.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    if token and not re.fullmatch(r"[\w-]{16,200}", token, re.ASCII):
        raise UserError(f"{TOKEN_VARIABLE} must be 16 to 200 letters, digits, - or _")
    return token or None


def _data_dir(option: Path | None) -> Path:
    """Return the folder of the recordings, which is created with the first recording.

    Raises:
        UserError: the folder of the option cannot be created or written to. Without the option, only recording fails.
    """
    if option is None:
        return data_dir()
    folder = option.expanduser()
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise UserError(f"--data-dir {option}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"--data-dir {option}: {existing} is not writable")
    return folder


@contextlib.contextmanager
def bound_socket(arguments: argparse.Namespace) -> Iterator[socket.socket]:
    """Yield the bound socket. Call this before the slow imports, so that a port in use is reported at once.

    Until serving begins, an interrupt ends the process at once, since an exception could be lost in an import.
    """
    exit_on_interrupt()
    working("starting the server")
    from app.server.listener import PortError, bind

    with user_errors(PortError):
        bound = bind(arguments.host, arguments.port)
    with bound:
        yield bound


def check_queue(url: str, is_server: bool) -> None:
    """Check that the message queue is reachable, before the slow imports.

    Raises:
        UserError: it is not, or another server uses it.
    """
    from app.relay.bus import BusError, check

    with user_errors(BusError, of="--message-queue"):
        check(url, is_server)


def serve_until_stopped(
    app: Flask,
    bound: socket.socket,
    settings: ServerSettings,
    what: str,
    open_browser: bool,
    on_ready: Callable[[threading.Event], object] = lambda stop: None,
    is_class: bool = False,
    **view: str,
) -> bool:
    """Serve until Ctrl-C or SIGTERM. Returns whether serving was ended by one of these.

    Prints a line of `what` and the address, with the query `view`. `on_ready` is called when the port answers, with an
    event that ends serving when it is set. `is_class`: print the teacher's address, on this machine.
    """
    from app.server.listener import Listener

    stop, interrupted = threading.Event(), threading.Event()
    listener = Listener(app, bound)

    def on_signal(number: int, _: Any) -> None:
        if interrupted.is_set():  # a second signal, during the shutdown
            os._exit(128 + number)
        interrupted.set()
        stop.set()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    address = _address(settings, listener.port, view, is_class)
    working("")
    say(f"{what}: {address}", flush=True)
    if is_class:
        say(_how_to_join(settings, listener.port), flush=True)
    elif settings.token:
        say("anyone who has this address can use the server: it contains the token", flush=True)
    on_ready(stop)
    if open_browser:
        webbrowser.open(address)
    stop.wait()
    try:
        if interrupted.is_set():
            _close_and_report(app, listener)
        else:
            listener.close()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return interrupted.is_set()


def _close_and_report(app: Flask, listener: Listener) -> None:
    sessions = app.extensions["kvtheater"]
    open_now, viewers = counted(len(sessions.all()), "session"), counted(sessions.num_viewers, "viewer")
    say(f"stopping: closing {open_now} with {viewers}; interrupt again to stop at once", flush=True)
    left = listener.close()
    say(f"stopped; {counted(left, 'session')} ended during a step" if left else "stopped", flush=True)


def _how_to_join(settings: ServerSettings, port: int) -> str:
    """Return a sentence that tells the teacher how phones join the class."""
    secret = "do not share this address, which contains the token"
    if settings.message_queue is not None:
        return f"{secret}; phones join at the web workers: open their address with this token and show its QR code"
    if settings.token is None:
        return "only this machine can reach the server; without --host, phones in the same network can join"
    return (
        f"{secret}; phones in the same network join by the QR code or the code on that page, if this machine's "
        f"firewall lets port {port} through"
    )


def _address(settings: ServerSettings, port: int, view: dict[str, str], is_class: bool = False) -> str:
    host = settings.host.strip("[]")
    if host in ("0.0.0.0", "::", ""):
        host = ("::1" if host == "::" else "127.0.0.1") if is_class else socket.gethostname()
    host = f"[{host}]" if ":" in host else host
    query = urlencode(({"token": settings.token} if settings.token else {}) | view)
    return f"http://{host}:{port}{settings.root_path}/" + (f"?{query}" if query else "")
