"""Identity of a request's sender: the owner, a follower with a pass, or an unknown client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from app.ground.settings import is_loopback


class Pass(NamedTuple):
    """Pass to a class: the seat that identifies a follower's browser."""

    class_id: str
    seat: str


# keys of a WSGI environment, which app/server/security.py sets: the sender of the request
OWNER = "kvtheater.owner"  # bool
PASS = "kvtheater.pass"  # Pass | None
ADDRESS = "kvtheater.address"  # str


def guest(environ: Mapping[str, Any]) -> Pass | None:
    """Return the guest that sent a request, or None. A guest's connections are limited (`Limits.sessions_of_one`)."""
    found: Pass | None = environ.get(PASS)
    return None if environ.get(OWNER) else found


class Credentials(Struct, array_like=True, frozen=True):
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
CREDENTIALS = "kvtheater.credentials"  # key of a WSGI environment: `Credentials` of the request
JOIN = "/j/"
DOOR_ICON = "/static/icon.svg"
DOOR_SHEETS = ("/static/css/tokens.css", "/static/css/join.css")


def address_of(environ: Environ) -> str:
    """Return the client's address. X-Forwarded-For is trusted from a proxy on this machine."""
    peer = str(environ.get("REMOTE_ADDR", ""))
    forwarded = str(environ.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip()
    return forwarded[:64] if forwarded and is_loopback(peer) else peer


def split_prefix(environ: Environ, root_path: str) -> None:
    """Set SCRIPT_NAME to the prefix below which a proxy serves the server, and remove the prefix from PATH_INFO.

    Args:
        environ: WSGI environment of a request, changed in place. Its path may or may not begin with the prefix.
        root_path: the prefix without a final slash; "": X-Forwarded-Prefix, if a proxy on this machine sends it.
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
    """Return the key or token of a program, sent as a bearer token or, by Anthropic's clients, as X-Api-Key; or ""."""
    scheme, _, value = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer":
        value = environ.get("HTTP_X_API_KEY", "")
    return str(value.strip()).encode("latin-1", "replace").decode("utf-8", "replace")  # WSGI decodes headers as latin-1
