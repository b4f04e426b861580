"""Execution of the web application on worker threads.

Greenlets read request bodies and send responses, so slow clients block no thread.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import gevent
from gevent.lock import Semaphore
from werkzeug.exceptions import ClientDisconnected, RequestTimeout

from app.ground.limits import MIB, Limits
from app.transport.async_response import AsyncResponse, watch
from app.transport.connection import CONNECTION
from app.transport.hub import Hub, Workers

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
WSGI = Callable[[Environ, StartResponse], Iterable[bytes]]
# returns status line, headers and body of the response to a refused body; the last argument is the reason
Refuse = Callable[[Environ, Literal["busy", "too_slow"], str], tuple[str, list[tuple[str, str]], bytes]]
PIECE = 256 * 1024  # bytes of a response that a worker produces at a time
ARRIVED = "kvtheater.arrived"  # key in a request's environment: monotonic arrival time; not set if its body is long


class WorkerMiddleware:
    """WSGI middleware on the hub thread that runs the application on a worker thread."""

    def __init__(self, app: WSGI, hub: Hub, limits: Limits, refuse: Refuse) -> None:
        """Wrap `app`. `refuse` returns the response to a refused body."""
        self._app, self._hub, self._limits, self._refuse = app, hub, limits, refuse
        self._workers: Workers | None = None
        self._uploads: Any = None

    def begin(self, workers: Workers) -> None:
        """Set the workers, on the hub thread, before the first request."""
        self._workers, self._uploads = workers, Semaphore(self._limits.uploads)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if self._workers is None or not self._hub.is_current_thread:  # a test client, without a server
            return self._app(environ, start_response)
        length = environ.get("CONTENT_LENGTH") or "0"
        chunked = "HTTP_TRANSFER_ENCODING" in environ
        if not chunked and int(length) <= MIB:
            try:
                with gevent.Timeout(self._limits.stall_seconds, TimeoutError):
                    environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read() if length != "0" else b"")
            except TimeoutError:
                environ[CONNECTION].leave_body()
                return self._refused(environ, start_response, "too_slow", _slow(self._limits.stall_seconds))
            environ[ARRIVED] = time.monotonic()
            return self._answer(environ, start_response)
        if not self._uploads.acquire(blocking=False):
            reason = f"{self._limits.uploads} long request bodies are already being read; try again in a moment"
            return self._refused(environ, start_response, "busy", reason)
        body = _Body(environ["wsgi.input"], self._hub, self._limits)
        try:
            environ["wsgi.input"] = io.BufferedReader(body)
            return self._answer(environ, start_response)
        finally:
            body.abandon()
            if body.is_stalled:
                environ[CONNECTION].leave_body()
            self._uploads.release()

    def _refused(
        self, environ: Environ, start_response: StartResponse, code: Literal["busy", "too_slow"], reason: str
    ) -> list[bytes]:
        status, headers, body = self._refuse(environ, code, reason)
        start_response(status, [*headers, ("Connection", "close")])
        return [body]

    def _answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        assert self._workers is not None
        started: list[tuple[Any, ...]] = []

        def start(*arguments: Any) -> Callable[[bytes], None]:
            started[:] = [arguments]
            return lambda _: None

        parts, first, rest = self._workers.do(_run, self._app, environ, start)
        if isinstance(parts, AsyncResponse):
            environ["wsgi.input"].close()  # free the body before the wait for the response
            return _stream(parts, environ, start_response)
        start_response(*started[0])
        if rest is None:
            return [first]
        return _LongResponse(parts, first, rest, self._workers)


def _run(app: WSGI, environ: Environ, start: StartResponse) -> tuple[Any, bytes, Iterator[bytes] | None]:
    """Run the application on a worker. Returns the body, its first piece, and an iterator over the rest."""
    parts = app(environ, start)
    if isinstance(parts, AsyncResponse):
        return parts, b"", None
    rest = iter(parts)
    try:
        first, more = _piece(rest)
    except BaseException:
        _close(parts)
        raise
    if not more:
        _close(parts)
    return parts, first, rest if more else None


def _stream(parts: AsyncResponse, environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
    """Run an asynchronous response on the hub thread, until it ends or its client disconnects."""
    parts.connection = environ.get(CONNECTION)
    watcher = watch(environ, parts.on_disconnect)
    try:
        start_response(*parts.head())
        yield from parts
    finally:
        if watcher is not None:
            watcher.kill()  # immediately, since the next request must be the only reader of the socket
        parts.close()


def _piece(rest: Iterator[bytes]) -> tuple[bytes, bool]:
    """Return about PIECE bytes, and whether there may be more."""
    found, size = [], 0
    for part in rest:
        found.append(part)
        size += len(part)
        if size >= PIECE:
            return b"".join(found), True
    return b"".join(found), False


def _close(parts: Any) -> None:
    if hasattr(parts, "close"):
        parts.close()


class _LongResponse:
    """Long response. A worker produces each piece after the previous one was sent."""

    def __init__(self, parts: Any, first: bytes, rest: Iterator[bytes], workers: Workers) -> None:
        self._parts, self._first, self._rest, self._workers = parts, first, rest, workers

    def __iter__(self) -> Iterator[bytes]:
        yield self._first
        more = True
        while more:
            piece, more = self._workers.do(_piece, self._rest)
            yield piece

    def close(self) -> None:
        self._workers.do(_close, self._parts)


class _Body(io.RawIOBase):
    """Request body, which greenlets read for a waiting worker."""

    def __init__(self, source: Any, hub: Hub, limits: Limits) -> None:
        self._source, self._hub, self._seconds = source, hub, limits.stall_seconds
        self._reader: Any = None  # reading greenlet
        self.is_stalled = False  # no data arrived within the time limit

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        try:
            data: bytes = self._hub.run_greenlet(lambda: self._read(len(into)))
        except TimeoutError as error:
            self.is_stalled = True
            raise RequestTimeout(_slow(self._seconds)) from error
        except (OSError, gevent.GreenletExit) as error:
            raise ClientDisconnected from error
        into[: len(data)] = data
        return len(data)

    def abandon(self) -> None:
        """Stop reading, on the hub thread, before the next request is read."""
        if self._reader is not None:
            self._reader.kill()

    def _read(self, size: int) -> bytes:
        self._reader = gevent.getcurrent()
        with gevent.Timeout(self._seconds, TimeoutError):
            found: bytes = self._source.read(size)
            return found


def _slow(seconds: float) -> str:
    return f"the request's body did not arrive within {seconds:g} seconds; send it again"
