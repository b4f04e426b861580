"""Shared code of `serve` and `replay`: the server's options, and serving until it is stopped."""

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
    """Add the options for address and recordings. Returns the group, for more of them.

    `default_host` None: the command itself checks whether an address was given.
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
        help="further host names of the server, for example host.docker.internal (* for any, which lets pages of other "
        "sites reach the server by DNS rebinding)",
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


def _root_path(given: str) -> str:
    path = given.rstrip("/")
    if path and not PREFIX.fullmatch(path):
        raise argparse.ArgumentTypeError(f"{given!r} is not a path such as /kv or /user/ann/kv")
    return path


def _names(given: str) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in given.split(",") if name.strip())


def server_settings(arguments: argparse.Namespace, **more: Any) -> ServerSettings:
    """Return the server settings of the options.

    Raises:
        UserError: a bound below 0, or a folder that cannot be used.
    """
    for name in ("max_recordings", "max_library_mib"):
        if (given := getattr(arguments, name)) < 0:
            raise UserError(f"--{name.replace('_', '-')} must be at least 0, not {given}")
    # clients of a web worker are not on this machine
    alone = is_loopback(arguments.host) and more.get("message_queue") is None
    token = _given_token() or (None if alone else secrets.token_urlsafe(24))
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


def _given_token() -> str | None:
    """Return the token that the environment gives, where other users cannot read it as they can a command line.

    Raises:
        UserError: it can be guessed, or is not what an address can hold.
    """
    given = os.environ.get(TOKEN_VARIABLE)
    if given and not re.fullmatch(r"[\w-]{16,200}", given, re.ASCII):
        raise UserError(f"{TOKEN_VARIABLE} must be 16 to 200 letters, digits, - or _")
    return given or None


def _data_dir(given: Path | None) -> Path:
    """Return the folder of the recordings, which is created with the first one.

    Raises:
        UserError: a given folder cannot be made or written to. If the usual one cannot, only recording fails.
    """
    if given is None:
        return data_dir()
    folder = given.expanduser()
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UserError(f"--data-dir {given}: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--data-dir {given}: nothing can be written to {there}")
    return folder


@contextlib.contextmanager
def bound_socket(arguments: argparse.Namespace) -> Iterator[socket.socket]:
    """Yield the bound socket, before anything slow: a taken port is reported at once.

    Until serving begins, an interrupt ends the process at once: the server's imports follow.
    """
    exit_on_interrupt()
    working("starting the server")
    from app.server.listener import PortError, bind

    with user_errors(PortError):
        bound = bind(arguments.host, arguments.port)
    with bound:
        yield bound


def check_queue(url: str, is_server: bool) -> None:
    """Check that the message queue is reachable, before anything slow.

    Raises:
        UserError: one sentence.
    """
    from app.relay.bus import BusError, check

    with user_errors(BusError, of="--message-queue"):
        check(url, is_server)


def serve_until_stopped(
    app: Flask,
    bound: socket.socket,
    settings: ServerSettings,
    what: str,
    opened: bool,
    answering: Callable[[threading.Event], object] = lambda stop: None,
    is_class: bool = False,
    **view: str,
) -> bool:
    """Serve until Ctrl-C or SIGTERM. The printed line begins with `what` and has the address, which shows `view`.

    `answering` is called when the port answers, with an event that ends serving when it is set. Returns whether serving
    was ended on request. `is_class`: the address is the teacher's, on this machine.
    """
    from app.server.listener import Listener

    stop, interrupted = threading.Event(), threading.Event()
    listener = Listener(app, bound)

    def stopped(number: int, _: Any) -> None:
        if interrupted.is_set():  # a second signal, while it was closing
            os._exit(128 + number)
        interrupted.set()
        stop.set()

    before = {number: signal.signal(number, stopped) for number in (signal.SIGINT, signal.SIGTERM)}
    address = _address(settings, listener.port, view, is_class)
    working("")
    say(f"{what}: {address}", flush=True)
    if is_class:
        say(_about_phones(settings, listener.port), flush=True)
    elif settings.token:
        say("anyone who has this address can use the server: it contains the token", flush=True)
    answering(stop)
    if opened:
        webbrowser.open(address)
    stop.wait()
    try:
        if interrupted.is_set():
            _close_aloud(app, listener)
        else:
            listener.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return interrupted.is_set()


def _close_aloud(app: Flask, listener: Listener) -> None:
    sessions = app.extensions["kvtheater"]
    open_now, viewers = counted(len(sessions.all()), "session"), counted(sessions.num_viewers, "viewer")
    say(f"stopping: closing {open_now} with {viewers}; once more to stop at once", flush=True)
    left = listener.close()
    say(f"stopped; {counted(left, 'session')} ended during a step" if left else "stopped", flush=True)


def _about_phones(settings: ServerSettings, port: int) -> str:
    """Return one sentence for the teacher."""
    if settings.message_queue is not None:
        return (
            "this address is yours alone, it holds the token; phones come in where the web workers are: open that "
            "address with this token, and its QR code leads there"
        )
    if settings.token is None:
        return "only this machine can reach it: leave --host out, and phones in the same network can join"
    return (
        "this address is yours alone, it holds the token; phones in the same network join by the QR code or the code "
        f"on that page, as long as this machine's firewall lets port {port} through"
    )


def _address(settings: ServerSettings, port: int, view: dict[str, str], is_class: bool = False) -> str:
    host = settings.host.strip("[]")
    if host in ("0.0.0.0", "::", ""):
        host = ("::1" if host == "::" else "127.0.0.1") if is_class else socket.gethostname()
    host = f"[{host}]" if ":" in host else host
    query = urlencode(({"token": settings.token} if settings.token else {}) | view)
    return f"http://{host}:{port}{settings.root_path}/" + (f"?{query}" if query else "")
