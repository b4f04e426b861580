"""Identity of a request by its credentials: the owner, a follower with a pass, or an unknown caller."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from app.ground.settings import is_loopback


class Pass(NamedTuple):
    """Seat in a class, which identifies a follower's browser."""

    class_id: str
    seat: str


# the sender in a request's environment: app/server/security.py writes it
OWNER = "kvtheater.owner"  # bool
PASS = "kvtheater.pass"  # Pass | None
ADDRESS = "kvtheater.address"  # str


def guest(environ: Mapping[str, Any]) -> Pass | None:
    """Return the guest whose connection a request begins, or None; a guest's connections are limited
    (`Limits.sessions_of_one`).
    """
    found: Pass | None = environ.get(PASS)
    return None if environ.get(OWNER) else found


class Shown(Struct, array_like=True, frozen=True):
    """Credentials of a browser: possible server tokens, and a pass to a class."""

    tokens: tuple[str, ...]
    ticket: str


class Person(NamedTuple):
    """Client at the other end of a connection."""

    is_owner: bool
    seat: Pass | None
    address: str = ""


ANONYMOUS = Person(is_owner=False, seat=None)


Environ = dict[str, Any]
PREFIX = re.compile(r"(/[\w.~@%+-]+){1,20}", re.ASCII)
COOKIE = "kvtheater_token"
PASS_COOKIE = "kvtheater_class"
SHOWN = "kvtheater.shown"  # in a request's environment: what was shown, a Shown
JOIN = "/j/"
DOOR_ICON = "/static/icon.svg"
DOOR_SHEETS = ("/static/css/tokens.css", "/static/css/join.css")


def address_of(environ: Environ) -> str:
    """Return the client's address. A proxy on this machine is trusted to report it."""
    peer = str(environ.get("REMOTE_ADDR", ""))
    named = str(environ.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip()
    return named[:64] if named and is_loopback(peer) else peer


def move_below(environ: Environ, root_path: str) -> None:
    """Split PATH_INFO into SCRIPT_NAME, the prefix below which a proxy shows the server, and the rest.

    Args:
        environ: WSGI environment of a request, changed in place. Its path may or may not begin with the prefix.
        root_path: the prefix without a last slash; "": X-Forwarded-Prefix, if a proxy on this machine sends it.
    """
    if not root_path and is_loopback(str(environ.get("REMOTE_ADDR", ""))):
        root_path = str(environ.get("HTTP_X_FORWARDED_PREFIX", "")).rstrip("/")
        if not PREFIX.fullmatch(root_path):
            return
    if not root_path:
        return
    path = str(environ.get("PATH_INFO", ""))
    environ["SCRIPT_NAME"] = root_path
    if path == root_path or path.startswith(root_path + "/"):
        environ["PATH_INFO"] = path.removeprefix(root_path) or "/"


def bearer(environ: Environ) -> str:
    """Return the key or token that a program sends, as a bearer or as X-Api-Key, which Anthropic's do; "": none."""
    scheme, _, value = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer":
        value = environ.get("HTTP_X_API_KEY", "")
    return str(value.strip()).encode("latin-1", "replace").decode("utf-8", "replace")  # as WSGI has a header's bytes
