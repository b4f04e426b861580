"""Access control of the server, and what a browser may do with its answers.

Applies to pages, HTTP endpoints and sockets alike:
- a request from another site's page is refused (its Origin), and so is one that reached this machine under another
  site's name (its Host: DNS rebinding), because a page anywhere can make a browser send requests to 127.0.0.1; an
  image of such a page is requested without an Origin, so the browser's Sec-Fetch-Site header counts as well;
- the API's addresses need an API key where the server has some, and nothing else; `/metrics` is not for clients, and
  needs what the page needs;
- where others can reach the server, every request needs the token, or a pass to a class, which opens only what a
  follower's page requests. The way to such a pass (`/j/`, and that page's assets) needs neither;
- on the loopback interface the token may be the first part of the path: a page in a frame of another site, as in a
  notebook, is sent no cookies. Such an address is proof of access by itself, so any site may frame it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from app.ground.callers import (
    ADDRESS,
    COOKIE,
    DOOR_ICON,
    DOOR_SHEETS,
    JOIN,
    OWNER,
    PASS,
    PASS_COOKIE,
    SHOWN,
    Environ,
    Pass,
    Person,
    Shown,
    address_of,
    bearer,
    move_below,
)
from app.ground.errors import HTTP_STATUS, AppError
from app.ground.settings import is_loopback
from app.openai.errors import of_refusal
from app.openai.keys import digest
from app.openai.paths import ALIVE, is_api, is_for_keys
from app.page.door import FOR_PROGRAMS, refused_page, wants_page
from app.server.headers import FRAMED_HEADERS, PREFLIGHT_HEADERS, SECURITY_HEADERS

StartResponse = Callable[..., Any]
WSGI = Callable[[Environ, StartResponse], Iterable[bytes]]

GUEST_PAGES = frozenset({"/", "/favicon.ico", "/api/model", "/api/models"})
GUEST_FOLDERS = ("/static/", "/vendor/", "/words/", "/docs/")
PAGES = frozenset({"/", "/bench", "/prompts", "/scale"})  # a link on another site may lead here


class Guard:
    """WSGI middleware around the whole application."""

    def __init__(
        self,
        app: WSGI,
        host: str | None,
        identify: Callable[[Shown], Person],
        api_keys: Container[str] = (),
        *,
        root_path: str = "",
        frame_token: str = "",
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        is_elsewhere: Callable[[str], bool] = lambda path: False,
    ) -> None:
        """Wrap `app`.

        Args:
            app: the application.
            host: the listening address, where every client that can reach it is an owner; None: a token is required.
            who: identifies the sender. Called on the hub thread, where it may wait as greenlets do.
            api_keys: digests of the keys to the interface for programs, if it needs one.
            root_path, allowed_hosts: as of `ServerSettings`.
            frame_token: the token, where it may be the first part of the path; "": it may not.
            allowed_origins: as of `ApiSettings`.
            is_elsewhere: which addresses are answered by another process, behind its own guard.
        """
        self._app, self._identify, self._api_keys, self._is_elsewhere = app, identify, api_keys, is_elsewhere
        self._host = None if host is None else host.strip("[]").lower()
        self._root_path, self._allowed_hosts, self._allowed_origins = root_path, allowed_hosts, allowed_origins
        self._frame_token = frame_token

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        move_below(environ, self._root_path)
        framed = self._token_of_path(environ)
        path = str(environ.get("PATH_INFO", "/"))
        shared = self._shared_with(environ, path)

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            taken = {name.lower() for name, _ in headers}
            extra = [h for h in (FRAMED_HEADERS if framed else SECURITY_HEADERS) if h[0].lower() not in taken]
            return start_response(status, [*headers, *extra, *shared], *rest)

        if shared and environ["REQUEST_METHOD"] == "OPTIONS":  # a preflight carries no key
            start("204 No Content", PREFLIGHT_HEADERS)
            return []
        try:
            if not framed:
                self._check_site(environ, bool(shared))
            _check_handshake(environ)
            way = None if self._is_elsewhere(path) else self._check_token(environ, path, framed)
        except AppError as error:
            return _answer_error(error, start, environ)
        if way is not None:
            redirect, token = way
            cookie = f"{COOKIE}={token}; Path={environ.get('SCRIPT_NAME', '')}/; HttpOnly; SameSite=Lax"
            start("303 See Other", [("Location", redirect), ("Set-Cookie", cookie), ("Content-Length", "0")])
            return [b""]
        return self._app(environ, start)

    def _shared_with(self, environ: Environ, path: str) -> list[tuple[str, str]]:
        """Return the headers that let the requesting page read an answer of the API; [] for any other request."""
        origin = str(environ.get("HTTP_ORIGIN", ""))
        if not origin or not is_api(path) or not ({"*", origin.lower()} & {*self._allowed_origins}):
            return []
        return [("Access-Control-Allow-Origin", origin), ("Access-Control-Expose-Headers", "*"), ("Vary", "Origin")]

    def _check_site(self, environ: Environ, is_shared: bool) -> None:
        host = environ.get("HTTP_HOST", "")
        name = _host_name(host)
        # With a token the name does not matter: another site's page cannot have the cookie, which belongs to ours.
        if self._host is not None and not (is_loopback(name) or {name, "*"} & {self._host, *self._allowed_hosts}):
            raise AppError(
                "forbidden",
                f"this server does not answer to the name {name[:80]!r}; --allowed-hosts NAME would allow it",
            )
        if is_shared:
            return
        if not _is_same_site(environ):
            raise AppError("forbidden", "requests from another site's page are refused; open the address itself")
        origin = environ.get("HTTP_ORIGIN")
        # a proxy may send its own name for the server as Host
        if origin and _netloc(origin) != host.lower() and _host_name(_netloc(origin)) not in self._allowed_hosts:
            raise AppError("forbidden", "requests from another site's page are refused")

    def _token_of_path(self, environ: Environ) -> str:
        """Move the token with which the path begins to SCRIPT_NAME and return it; "" if there is none.

        A way into a class is not shown in a frame: its address goes to everybody, and must not hold the token.
        """
        given, slash, rest = str(environ.get("PATH_INFO", "/"))[1:].partition("/")
        wanted = self._frame_token
        if not (wanted and slash and hmac.compare_digest(given.encode(), wanted.encode())) or _is_door(f"/{rest}"):
            return ""
        environ["SCRIPT_NAME"] = f"{environ.get('SCRIPT_NAME', '')}/{wanted}"
        environ["PATH_INFO"] = f"/{rest}"
        return wanted

    def _check_token(self, environ: Environ, path: str, framed: str) -> tuple[str, str] | None:
        """Authenticate a request. Return the redirect and the token, when a page was opened with it in its address."""
        if self._api_keys and is_for_keys(path):
            if digest(bearer(environ)) in self._api_keys or (self._host is not None and path in ALIVE):
                return None
            if self._host is not None:
                raise AppError("token_required", "this server requires an API key")
        query = parse_qsl(str(environ.get("QUERY_STRING", "")), keep_blank_values=True)
        if (given := dict(query).get("token")) and self._host is None and self._is_owners(environ, given):
            if environ["REQUEST_METHOD"] != "GET" or path.startswith(FOR_PROGRAMS):
                return None
            rest = urlencode([(k, v) for k, v in query if k != "token"])
            # relative, so that it holds below any path: never another site's address
            return "./" + quote(path.rpartition("/")[2], encoding="latin-1") + (f"?{rest}" if rest else ""), given
        if self._is_owners(environ, framed, _cookie(environ, COOKIE), bearer(environ)):
            return None
        if (
            _is_door(path)
            or path in (DOOR_ICON, *DOOR_SHEETS)
            or (environ[PASS] and _is_for_guests(environ["REQUEST_METHOD"], path))
        ):
            return None
        raise AppError(
            "token_required", "this server needs its token: open the address that it printed, with ?token= at the end"
        )

    def _is_owners(self, environ: Environ, *tokens: str) -> bool:
        """Record the sender of a request, and return whether it is an owner."""
        environ[SHOWN] = shown = Shown(tuple(filter(None, tokens)), _cookie(environ, PASS_COOKIE))
        person = self._identify(shown)
        environ[OWNER], environ[PASS], environ[ADDRESS] = person.is_owner, person.seat, address_of(environ)
        return bool(environ[OWNER])


def recognizer(token: str | None, known: Callable[[str], Pass | None]) -> Callable[[Shown], Person]:
    """Return a function that identifies senders, for a server with this token; None: all are owners.

    `known`: the pass of a text.
    """
    wanted = token and token.encode()

    def identify(shown: Shown) -> Person:
        matches = [hmac.compare_digest(given.encode("utf-8", "replace"), wanted) for given in shown.tokens if wanted]
        return Person(wanted is None or any(matches), known(shown.ticket))

    return identify


def _is_same_site(environ: Environ) -> bool:
    """Return whether our page, a person or a program sent the request. From another site only a visit to a page is
    accepted.

    Programs and browsers from before 2023 send no such header; the latter are checked by their Origin, if any.
    """
    if environ.get("HTTP_SEC_FETCH_SITE", "none") in ("same-origin", "none"):
        return True
    visit = environ.get("HTTP_SEC_FETCH_MODE") == "navigate" and environ.get("HTTP_SEC_FETCH_DEST") == "document"
    path = str(environ.get("PATH_INFO", ""))
    return visit and environ["REQUEST_METHOD"] in ("GET", "HEAD") and _is_page(path)


def _host_name(host: str) -> str:
    """Return the Host header without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _check_handshake(environ: Environ) -> None:
    """Check the opening request of a web socket as RFC 6455, 4.2.1 requires; the libraries below do not."""
    is_web_socket = dict(parse_qsl(str(environ.get("QUERY_STRING", "")))).get("transport") == "websocket"
    if not is_web_socket or not str(environ.get("PATH_INFO", "")).startswith("/socket.io"):
        return
    upgrade, connection = (environ.get(name, "").lower() for name in ("HTTP_UPGRADE", "HTTP_CONNECTION"))
    version, key = (environ.get(f"HTTP_SEC_WEBSOCKET_{name}") for name in ("VERSION", "KEY"))
    if upgrade != "websocket" or "upgrade" not in connection or version != "13" or not key:
        raise AppError("bad_request", "this request cannot become a web socket: its headers are not a handshake's")


def _netloc(origin: str) -> str:
    """Return the Origin header without its scheme."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_page(path: str) -> bool:
    """Return whether a link on another site may lead here."""
    return path in PAGES or path.startswith("/docs/") or _is_door(path)


def _is_door(path: str) -> bool:
    """Return whether this is the entry of a class."""
    return path == JOIN.rstrip("/") or path.startswith(JOIN)


def _is_for_guests(method: str, path: str) -> bool:
    """Return whether a follower's page requests this."""
    if path.startswith("/socket.io"):
        return True  # app/classroom/access.py checks the permissions there
    plain = ".." not in path.split("/")
    return plain and method in ("GET", "HEAD") and (path in GUEST_PAGES or path.startswith(GUEST_FOLDERS))


def _cookie(environ: Environ, name: str) -> str:
    try:
        found = SimpleCookie(environ.get("HTTP_COOKIE", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _answer_error(error: AppError, start: StartResponse, environ: Environ) -> list[bytes]:
    path = str(environ.get("PATH_INFO", "/"))
    if wants_page(environ) and not is_api(path):
        found = refused_page(environ, error, HTTP_STATUS[error.code])
        start(found.status_line, found.headers)
        return [found.body]
    status, headers, body = refused(error, path)
    start(status, headers)
    return [body]


def refused(error: AppError, path: str) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return status line, headers and body: in the API's own shapes where the path is the API's."""
    if is_api(path):
        return of_refusal(error).response(path)
    body = json.dumps(error.as_map()).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return f"{HTTP_STATUS[error.code]} {error.code}", headers, body


def refused_body(
    environ: Mapping[str, Any], code: Literal["busy", "too_slow"], message: str
) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return the same for a request whose body is not accepted, in the form that the transport needs."""
    return refused(AppError(code, message), str(environ.get("PATH_INFO", "")))
