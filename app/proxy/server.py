"""Forwarding of HTTP requests: bodies unchanged, streams without delay, over reused connections."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from app.ground.settings import is_loopback
from app.openai.errors import ApiError
from app.proxy.exchange import Exchanges, UsageReader

logger = logging.getLogger(__name__)
MAX_BODY = 64 * 1024 * 1024  # bytes
MAX_HEAD = 64 * 1024
CONNECT_SECONDS = 15.0
KEEPALIVE_SECONDS = 4.0  # shorter than usual on servers; otherwise a request may be sent on a closed connection
# hop-by-hop headers, and those that the proxy sets itself
OWN = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
     "transfer-encoding", "upgrade", "host", "content-length", "expect")
)  # fmt: skip
KEY_HEADERS = ("authorization", "x-api-key", "api-key")
READABLE = ("gzip", "deflate", "identity")  # encodings of responses that `UsageReader` can read


class Proxy:
    """Forwards requests, and records each request to a model after its response."""

    def __init__(self, upstream: str, exchanges: Exchanges) -> None:
        """`upstream`: the server's URL, with the prefix of all its paths."""
        self._upstream, self._exchanges = upstream.rstrip("/"), exchanges
        self._session: aiohttp.ClientSession | None = None
        self._lock = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()

    async def run(self, bound: socket.socket, stop: asyncio.Event, on_ready: Callable[[], object]) -> None:
        """Serve on a bound socket until `stop` is set. Calls `on_ready` when the socket listens."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{rest:.*}", self._handle)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, auto_decompress=False, max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD, shutdown_timeout=2.0,
        )  # fmt: skip
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS), timeout=timeout,
            auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), max_line_size=MAX_HEAD, max_field_size=MAX_HEAD,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as self._session:  # fmt: skip
            await runner.setup()
            await web.SockSite(runner, bound).start()
            on_ready()
            await stop.wait()
            await runner.cleanup()
            await asyncio.gather(*self._writing)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        started = time.time()
        if (refusal := _refusal(request)) is not None:
            return _answer(refusal, request)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _answer(ApiError(f"a body may have {MAX_BODY >> 20} MiB", status=413), request)
        assert self._session is not None
        target = URL(self._upstream + request.raw_path, encoded=True)
        try:
            upstream = await self._session.request(
                request.method, target, headers=_forwarded_headers(request), data=body or None, allow_redirects=False
            )
        except (aiohttp.ClientError, OSError) as error:
            name = urlsplit(self._upstream).netloc
            return _answer(ApiError(f"cannot reach {name}: {_reason(error)}", status=502), request)
        usage = UsageReader(upstream.headers.get("Content-Type", ""), upstream.headers.get("Content-Encoding", ""))
        try:
            async with upstream:
                return await self._forward_response(request, upstream, usage)
        finally:  # also if the client has disconnected
            if request.method == "POST":
                task = asyncio.create_task(self._record(request, started, body, usage))
                self._writing.add(task)
                task.add_done_callback(self._writing.discard)

    async def _forward_response(
        self, request: web.Request, upstream: aiohttp.ClientResponse, usage: UsageReader
    ) -> web.StreamResponse:
        answer = web.StreamResponse(status=upstream.status, reason=upstream.reason)
        for name, value in upstream.headers.items():
            if name.lower() not in OWN:
                answer.headers.add(name, value)
        answer.content_length = upstream.content_length
        await answer.prepare(request)
        try:
            async for data in upstream.content.iter_any():
                await answer.write(data)
                usage.feed(data)
            await answer.write_eof()
        except (aiohttp.ClientError, ConnectionResetError) as error:
            if not isinstance(error, aiohttp.ClientConnectionResetError):  # otherwise the client has disconnected
                logger.warning("%s ended a response early: %s", urlsplit(self._upstream).netloc, _reason(error))
            if request.transport is not None:
                request.transport.abort()
        return answer

    async def _record(self, request: web.Request, started: float, body: bytes, usage: UsageReader) -> None:
        keys = [word for name in KEY_HEADERS for value in request.headers.getall(name, []) for word in value.split()]
        async with self._lock:
            try:
                await asyncio.to_thread(self._exchanges.add, request.path, started, body, usage.end(), keys)
            except OSError as error:
                logger.warning("a request could not be recorded: %s", error.strerror or error)


def _refusal(request: web.Request) -> ApiError | None:
    """Return the refusal for a request of another site's page, by its Origin or its Host; None for other requests."""
    if not request.raw_path.startswith("/"):
        return ApiError("the request's target must be a path")
    origin = request.headers.get("Origin", "")
    if origin == "null" or (origin.startswith("http") and not is_loopback(_host_of(origin))):
        return ApiError("requests from another site's page are refused", status=403)
    name = _host_of(f"//{request.headers.get('Host', '')}")
    return None if is_loopback(name) else ApiError(f"the host name {name[:80]!r} is not this machine's", status=403)


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _forwarded_headers(request: web.Request) -> CIMultiDict[str]:
    """Return the request's headers without those of its connection, and with readable encodings only."""
    named = {one.strip().lower() for value in request.headers.getall("Connection", []) for one in value.split(",")}
    headers = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if name.lower() not in OWN and name.lower() not in named
    )
    if accepted := headers.popall("Accept-Encoding", None):
        wanted = [one.strip() for value in accepted for one in value.split(",")]
        readable = [one for one in wanted if one.partition(";")[0].strip().lower() in READABLE]
        headers["Accept-Encoding"] = ", ".join(readable) or "identity"
    return headers


def _answer(error: ApiError, request: web.Request) -> web.Response:
    _, headers, body = error.response(request.path)
    return web.Response(status=error.status, body=body, headers=[(k, v) for k, v in headers if k != "Content-Length"])


def _reason(error: Exception) -> Any:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
