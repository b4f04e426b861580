"""Forwarding of HTTP: bodies byte for byte, streams without delay, connections reused."""

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
CONNECTING = 15.0  # seconds
KEEPALIVE_SECONDS = 4.0  # shorter than servers keep theirs, or a request would meet a closed connection
# headers of one connection
OWN = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
     "transfer-encoding", "upgrade", "host", "content-length", "expect")
)  # fmt: skip
KEY_HEADERS = ("authorization", "x-api-key", "api-key")
READABLE = ("gzip", "deflate", "identity")  # encodings of an answer in which usage is found


class Proxy:
    """Forwards requests, and has each request to a model recorded once its answer is over."""

    def __init__(self, upstream: str, exchanges: Exchanges) -> None:
        """`upstream`: the server's address, with the path that all its addresses begin with, if there is one."""
        self._upstream, self._exchanges = upstream.rstrip("/"), exchanges
        self._session: aiohttp.ClientSession | None = None
        self._lock = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()

    async def run(self, bound: socket.socket, stop: asyncio.Event, ready: Callable[[], object]) -> None:
        """Serve on a bound socket until `stop` is set. `ready` is called when it listens."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{rest:.*}", self._handle)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, auto_decompress=False, max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD, shutdown_timeout=2.0,
        )  # fmt: skip
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECTING)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS), timeout=timeout,
            auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), max_line_size=MAX_HEAD, max_field_size=MAX_HEAD,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as self._session:  # fmt: skip
            await runner.setup()
            await web.SockSite(runner, bound).start()
            ready()
            await stop.wait()
            await runner.cleanup()
            await asyncio.gather(*self._writing)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        began = time.time()
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
                request.method, target, headers=_passed_on(request), data=body or None, allow_redirects=False
            )
        except (aiohttp.ClientError, OSError) as error:
            name = urlsplit(self._upstream).netloc
            return _answer(ApiError(f"{name} cannot be asked: {_reason(error)}", status=502), request)
        found = UsageReader(upstream.headers.get("Content-Type", ""), upstream.headers.get("Content-Encoding", ""))
        try:
            async with upstream:
                return await self._pass_back(request, upstream, found)
        finally:  # also where the client has left
            if request.method == "POST":
                task = asyncio.create_task(self._write(request, began, body, found))
                self._writing.add(task)
                task.add_done_callback(self._writing.discard)

    async def _pass_back(
        self, request: web.Request, upstream: aiohttp.ClientResponse, found: UsageReader
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
                found.feed(data)
            await answer.write_eof()
        except (aiohttp.ClientError, ConnectionResetError) as error:  # it ends here as it ended there: cut off
            if not isinstance(error, aiohttp.ClientConnectionResetError):  # else the client has left
                logger.warning("%s ended an answer early: %s", urlsplit(self._upstream).netloc, _reason(error))
            if request.transport is not None:
                request.transport.abort()
        return answer

    async def _write(self, request: web.Request, began: float, body: bytes, found: UsageReader) -> None:
        keys = [word for name in KEY_HEADERS for value in request.headers.getall(name, []) for word in value.split()]
        async with self._lock:
            try:
                await asyncio.to_thread(self._exchanges.add, request.path, began, body, found.end(), keys)
            except OSError as error:
                logger.warning("a request could not be written down: %s", error.strerror or error)


def _refusal(request: web.Request) -> ApiError | None:
    """Refuse requests that another site's page makes a browser send, by their Origin or by another Host name."""
    if not request.raw_path.startswith("/"):
        return ApiError("the request's target must be a path")
    origin = request.headers.get("Origin", "")
    if origin == "null" or (origin.startswith("http") and not is_loopback(_host_of(origin))):
        return ApiError("requests from another site's page are refused", status=403)
    name = _host_of(f"//{request.headers.get('Host', '')}")
    return None if is_loopback(name) else ApiError(f"this proxy does not answer to the name {name[:80]!r}", status=403)


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _passed_on(request: web.Request) -> CIMultiDict[str]:
    """Return the request's headers without those of its connection, and with encodings in which usage can be read."""
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
