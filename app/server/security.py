"""Access control of the server, and security headers of its responses.

The rules apply to pages, HTTP endpoints and sockets alike:
- Requests from another site's page are refused by their Origin, and requests that reached this machine under another
  site's name (DNS rebinding) by their Host, since any page can make a browser send requests to 127.0.0.1. Images are
  requested without Origin, so the browser's Sec-Fetch-Site header is checked as well.
- The API's paths need an API key if the server has keys, and nothing else. `/metrics` needs what the page needs.
- If other machines can reach the server, every request needs the token or a pass to a class. A pass is valid only for
  what a follower's page requests. The page that gives out passes (`/j/`) and its assets need neither.
- On the loopback interface the token may be the first part of the path, because a page in a frame of another site, such
  as a notebook, is sent no cookies. Such an address proves access by itself, so any site may frame it.
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
    CREDENTIALS,
    DOOR_ICON,
    DOOR_SHEETS,
    JOIN,
    OWNER,
    PASS,
    PASS_COOKIE,
    Credentials,
    Environ,
    Pass,
    Person,
    address_of,
    bearer,
    split_prefix,
)
from app.ground.errors import HTTP_STATUS, AppError
from app.ground.settings import is_loopback
from app.openai.errors import from_app_error
from app.openai.keys import digest
from app.openai.paths import ALIVE, is_api, is_for_keys
from app.page.door import FOR_PROGRAMS, refused_page, wants_page
from app.server.headers import FRAMED_HEADERS, PREFLIGHT_HEADERS, SECURITY_HEADERS

StartResponse = Callable[..., Any]
WSGI = Callable[[Environ, StartResponse], Iterable[bytes]]

GUEST_PAGES = frozenset({"/", "/favicon.ico", "/api/model", "/api/models"})
GUEST_FOLDERS = ("/static/", "/vendor/", "/words/", "/docs/")
PAGES = frozenset({"/", "/bench", "/prompts", "/scale"})  # links on other sites may lead to these


class Guard:
    """WSGI middleware around the whole application."""

    def __init__(
        self,
        app: WSGI,
        host: str | None,
        identify: Callable[[Credentials], Person],
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
            host: the listening address, if every client that can reach it is an owner; None: a token is required.
            identify: identifies the sender. Called on the hub thread, where it may block its greenlet.
            api_keys: digests of the API's keys; none: the API needs no key.
            root_path, allowed_hosts: as in `ServerSettings`.
            frame_token: the token, if it may be the first part of the path; "": it may not.
            allowed_origins: as in `ApiSettings`.
            is_elsewhere: whether another process, which has its own guard, answers a path.
        """
        self._app, self._identify, self._api_keys, self._is_elsewhere = app, identify, api_keys, is_elsewhere
        self._host = None if host is None else host.strip("[]").lower()
        self._root_path, self._allowed_hosts, self._allowed_origins = root_path, allowed_hosts, allowed_origins
        self._frame_token = frame_token

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        split_prefix(environ, self._root_path)
        framed = self._token_of_path(environ)
        path = str(environ.get("PATH_INFO", "/"))
        cors_headers = self._cors_headers(environ, path)

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            present = {name.lower() for name, _ in headers}
            extra = [h for h in (FRAMED_HEADERS if framed else SECURITY_HEADERS) if h[0].lower() not in present]
            return start_response(status, [*headers, *extra, *cors_headers], *rest)

        if cors_headers and environ["REQUEST_METHOD"] == "OPTIONS":  # a preflight request, which has no key
            start("204 No Content", PREFLIGHT_HEADERS)
            return []
        try:
            if not framed:
                self._check_site(environ, bool(cors_headers))
            _check_handshake(environ)
            redirect = None if self._is_elsewhere(path) else self._check_token(environ, path, framed)
        except AppError as error:
            return _answer_error(error, start, environ)
        if redirect is not None:
            location, token = redirect
            cookie = f"{COOKIE}={token}; Path={environ.get('SCRIPT_NAME', '')}/; HttpOnly; SameSite=Lax"
            start("303 See Other", [("Location", location), ("Set-Cookie", cookie), ("Content-Length", "0")])
            return [b""]
        return self._app(environ, start)

    def _cors_headers(self, environ: Environ, path: str) -> list[tuple[str, str]]:
        """Return the headers that let an allowed origin's page read a response of the API; [] for other requests."""
        origin = str(environ.get("HTTP_ORIGIN", ""))
        if not origin or not is_api(path) or not ({"*", origin.lower()} & {*self._allowed_origins}):
            return []
        return [("Access-Control-Allow-Origin", origin), ("Access-Control-Expose-Headers", "*"), ("Vary", "Origin")]

    def _check_site(self, environ: Environ, is_cors: bool) -> None:
        host = environ.get("HTTP_HOST", "")
        name = _host_name(host)
        # With a token the name does not matter: the cookie belongs to our name and is not sent for another one.
        if self._host is not None and not (is_loopback(name) or {name, "*"} & {self._host, *self._allowed_hosts}):
            raise AppError(
                "forbidden",
                f"the host name {name[:80]!r} is not allowed; start the server with --allowed-hosts NAME to allow it",
            )
        if is_cors:
            return
        if not _is_same_site(environ):
            raise AppError("forbidden", "requests from another site's page are refused; open the address itself")
        origin = environ.get("HTTP_ORIGIN")
        # a proxy may send another name of the server as Host
        if origin and _netloc(origin) != host.lower() and _host_name(_netloc(origin)) not in self._allowed_hosts:
            raise AppError("forbidden", "requests from another site's page are refused")

    def _token_of_path(self, environ: Environ) -> str:
        """Move the token at the start of the path to SCRIPT_NAME and return it; return "" if there is none.

        The join page of a class is excluded, because its address is shown to everyone and must not contain the token.
        """
        start, slash, rest = str(environ.get("PATH_INFO", "/"))[1:].partition("/")
        token = self._frame_token
        if not (token and slash and hmac.compare_digest(start.encode(), token.encode())) or _is_join_page(f"/{rest}"):
            return ""
        environ["SCRIPT_NAME"] = f"{environ.get('SCRIPT_NAME', '')}/{token}"
        environ["PATH_INFO"] = f"/{rest}"
        return token

    def _check_token(self, environ: Environ, path: str, framed: str) -> tuple[str, str] | None:
        """Authenticate a request. If a page's query has the token, return the address without it, and the token."""
        if self._api_keys and is_for_keys(path):
            if digest(bearer(environ)) in self._api_keys or (self._host is not None and path in ALIVE):
                return None
            if self._host is not None:
                raise AppError("token_required", "this server requires an API key")
        query = parse_qsl(str(environ.get("QUERY_STRING", "")), keep_blank_values=True)
        if (token := dict(query).get("token")) and self._host is None and self._is_owners(environ, token):
            if environ["REQUEST_METHOD"] != "GET" or path.startswith(FOR_PROGRAMS):
                return None
            rest = urlencode([(k, v) for k, v in query if k != "token"])
            # relative, so that it is valid below any path and never leads to another site
            return "./" + quote(path.rpartition("/")[2], encoding="latin-1") + (f"?{rest}" if rest else ""), token
        if self._is_owners(environ, framed, _cookie(environ, COOKIE), bearer(environ)):
            return None
        if (
            _is_join_page(path)
            or path in (DOOR_ICON, *DOOR_SHEETS)
            or (environ[PASS] and _is_for_guests(environ["REQUEST_METHOD"], path))
        ):
            return None
        raise AppError(
            "token_required", "this server requires its token: open the address that it printed, which has ?token="
        )

    def _is_owners(self, environ: Environ, *tokens: str) -> bool:
        """Store the sender of a request in `environ`, and return whether it is an owner."""
        credentials = Credentials(tuple(filter(None, tokens)), _cookie(environ, PASS_COOKIE))
        environ[CREDENTIALS] = credentials
        person = self._identify(credentials)
        environ[OWNER], environ[PASS], environ[ADDRESS] = person.is_owner, person.seat, address_of(environ)
        return bool(environ[OWNER])


def identifier(token: str | None, pass_of: Callable[[str], Pass | None]) -> Callable[[Credentials], Person]:
    """Return a function that identifies senders by their credentials. `token` None: all senders are owners.

    `pass_of` returns the pass for a ticket.
    """
    expected = token and token.encode()

    def identify(credentials: Credentials) -> Person:
        sent = [one.encode("utf-8", "replace") for one in credentials.tokens]
        matches = [hmac.compare_digest(one, expected) for one in sent if expected]
        return Person(expected is None or any(matches), pass_of(credentials.ticket))

    return identify


def _is_same_site(environ: Environ) -> bool:
    """Return whether the request comes from our page, an address bar or a program, or is a link to one of our pages.

    Programs and browsers from before 2023 send no Sec-Fetch headers; such browsers are checked by their Origin only.
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
    """Check the opening request of a WebSocket as RFC 6455, 4.2.1 requires, since the libraries do not."""
    is_web_socket = dict(parse_qsl(str(environ.get("QUERY_STRING", "")))).get("transport") == "websocket"
    if not is_web_socket or not str(environ.get("PATH_INFO", "")).startswith("/socket.io"):
        return
    upgrade, connection = (environ.get(name, "").lower() for name in ("HTTP_UPGRADE", "HTTP_CONNECTION"))
    version, key = (environ.get(f"HTTP_SEC_WEBSOCKET_{name}") for name in ("VERSION", "KEY"))
    if upgrade != "websocket" or "upgrade" not in connection or version != "13" or not key:
        raise AppError("bad_request", "this is not a valid WebSocket handshake")


def _netloc(origin: str) -> str:
    """Return the Origin header without its scheme."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_page(path: str) -> bool:
    """Return whether links on other sites may lead to the path."""
    return path in PAGES or path.startswith("/docs/") or _is_join_page(path)


def _is_join_page(path: str) -> bool:
    return path == JOIN.rstrip("/") or path.startswith(JOIN)


def _is_for_guests(method: str, path: str) -> bool:
    """Return whether a follower's page sends such requests."""
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
    """Return status line, headers and body for an error, in the API's format if the path is the API's."""
    if is_api(path):
        return from_app_error(error).response(path)
    body = json.dumps(error.as_map()).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return f"{HTTP_STATUS[error.code]} {error.code}", headers, body


def refused_body(
    environ: Mapping[str, Any], code: Literal["busy", "too_slow"], message: str
) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return status line, headers and body for a request whose body is refused."""
    return refused(AppError(code, message), str(environ.get("PATH_INFO", "")))
