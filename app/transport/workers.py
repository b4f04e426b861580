"""The web application on worker threads; greenlets carry bodies and answers, so that no slow client holds a thread."""

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
# status line, headers and body of the answer to a request whose body is not taken, and in a sentence why
Refuse = Callable[[Environ, Literal["busy", "too_slow"], str], tuple[str, list[tuple[str, str]], bytes]]
PIECE = 256 * 1024  # bytes of an answer made at a time
ARRIVED = "kvtheater.arrived"  # in a request's environment, unless its body is long: when all of it was here, monotonic


class OnWorkers:
    """WSGI middleware: the application below it runs on a worker thread, the server above it on the hub thread."""

    def __init__(self, app: WSGI, hub: Hub, limits: Limits, refuse: Refuse) -> None:
        """`refuse`: what is answered where a body is not taken."""
        self._app, self._hub, self._limits, self._refuse = app, hub, limits, refuse
        self._workers: Workers | None = None
        self._uploads: Any = None

    def begin(self, workers: Workers) -> None:
        """On the hub thread, before the first request."""
        self._workers, self._uploads = workers, Semaphore(self._limits.uploads)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if self._workers is None or not self._hub.is_here:  # a test's client, without a server
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
            why = f"{self._limits.uploads} long bodies are being sent already; try again in a moment"
            return self._refused(environ, start_response, "busy", why)
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
        self, environ: Environ, start_response: StartResponse, code: Literal["busy", "too_slow"], why: str
    ) -> list[bytes]:
        status, headers, body = self._refuse(environ, code, why)
        start_response(status, [*headers, ("Connection", "close")])
        return [body]

    def _answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        assert self._workers is not None
        told: list[tuple[Any, ...]] = []

        def tell(*said: Any) -> Callable[[bytes], None]:
            told[:] = [said]
            return lambda _: None

        parts, first, rest = self._workers.do(_begin, self._app, environ, tell)
        if isinstance(parts, AsyncResponse):
            environ["wsgi.input"].close()  # its body has been read, and is not held while the answer is waited for
            return _responding(parts, environ, start_response)
        start_response(*told[0])
        if rest is None:
            return [first]
        return _Answer(parts, first, rest, self._workers)


def _begin(app: WSGI, environ: Environ, tell: StartResponse) -> tuple[Any, bytes, Iterator[bytes] | None]:
    """On a worker: the answer's head, its first piece, and an iterator over the rest."""
    parts = app(environ, tell)
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


def _responding(parts: AsyncResponse, environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
    """Run an asynchronous response on the hub thread, for as long as its client is connected."""
    parts.connection = environ.get(CONNECTION)
    watching = watch(environ, parts.gone)
    try:
        start_response(*parts.head())
        yield from parts
    finally:
        if watching is not None:
            watching.kill()  # now: the reader of the next request must be alone on the socket
        parts.close()


def _piece(rest: Iterator[bytes]) -> tuple[bytes, bool]:
    """As much as is worth a turn of a worker, and whether there may be more."""
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


class _Answer:
    """A long answer: a worker makes the next piece when the client has taken the last."""

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
    """A request's body, read by greenlets for a worker that waits."""

    def __init__(self, source: Any, hub: Hub, limits: Limits) -> None:
        self._source, self._hub, self._seconds = source, hub, limits.stall_seconds
        self._reader: Any = None  # the greenlet that reads
        self.is_stalled = False  # nothing came for too long

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        try:
            data: bytes = self._hub.ask(lambda: self._read(len(into)))
        except TimeoutError as error:
            self.is_stalled = True
            raise RequestTimeout(_slow(self._seconds)) from error
        except (OSError, gevent.GreenletExit) as error:
            raise ClientDisconnected from error
        into[: len(data)] = data
        return len(data)

    def abandon(self) -> None:
        """On the hub thread, when the request is over: a read of it must not meet a read of the next one."""
        if self._reader is not None:
            self._reader.kill()

    def _read(self, size: int) -> bytes:
        self._reader = gevent.getcurrent()
        with gevent.Timeout(self._seconds, TimeoutError):
            found: bytes = self._source.read(size)
            return found


def _slow(seconds: float) -> str:
    return f"the request's body did not come within {seconds:g} seconds; send it again"
