"""HTTP response to one call, written as fast as its connection accepts it."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator

import msgspec

from app.openai.engine import AsyncEngine
from app.openai.errors import ApiError
from app.openai.response_format import ResponseFormat
from app.transport.async_response import AsyncResponse

KEEP_ALIVE_SECONDS = 15.0  # of silence on a stream before a keep-alive; proxies time out after 60


class CallResponse(AsyncResponse):
    """Response to one call, streamed or not. A client that stops reading delays only its own call."""

    def __init__(
        self,
        format: ResponseFormat,
        engine: AsyncEngine,
        address: str,
        deadline: float | None,
        log_outcome: Callable[..., object],
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """`address`: the page's address, for a link to the call's first step. `deadline`: seconds from the call's
        arrival. `log_outcome`: called at the end with fields for the access log. `on_close`: called after it.
        """
        self._on_close = on_close
        self._format, self._engine, self._address = format, engine, address
        self._call = call = format.call
        self._deadline, self._log_outcome = deadline, log_outcome
        self._until = None if deadline is None else call.arrived_at + deadline
        self._body = b""  # of a response that is not streamed

    def head(self) -> tuple[str, list[tuple[str, str]]]:
        call = self._call
        while not call.is_done and not (call.request.stream and call.first_record is not None):
            if not self._wait() and call.request.stream:
                break
        if call.is_closed:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the client has disconnected")  # gevent checks errno
        if call.error is not None:
            status, headers, self._body = call.error.response(self._format.path)
            return status, [*headers, *self._call_headers()]
        if call.request.stream:
            headers = [("Content-Type", "text/event-stream; charset=utf-8"), ("X-Accel-Buffering", "no")]  # for nginx
            return "200 OK", [*headers, *self._call_headers()]
        self._body = msgspec.json.encode(self._format.body())
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(self._body)))]
        return "200 OK", [*headers, *self._call_headers()]

    def __iter__(self) -> Iterator[bytes]:
        if self._body or not self._call.request.stream:
            yield self._body
            return
        call = self._call
        while not call.is_closed:
            if self.connection is not None:
                self.connection.send_rest()
            events = self._format.chunks()
            if call.is_done:
                if not call.is_closed:
                    error = call.error
                    events += self._format.last_chunks() if error is None else self._format.error_chunks(error)
                    yield b"".join(events)
                return
            if events:
                yield b"".join(events)
            elif not self._wait():
                yield self._format.keep_alive

    def _send_now(self) -> bool:
        """Write new output without waking the response's greenlet. Returns False if the greenlet must write it."""
        call, connection = self._call, self.connection
        if connection is None or connection.has_rest or not connection.headers_sent or call.is_done:
            return False
        events = self._format.chunks()
        return not events or connection.send_now(b"".join(events))

    def on_disconnect(self) -> None:
        self._engine.leave(self._call)
        self._call.wake()

    def close(self) -> None:
        call = self._call
        self._log_outcome(
            prompt_tokens=call.num_prompt_tokens,
            cached_tokens=call.num_cached_tokens,
            completion_tokens=call.num_output_tokens,
        )
        self._engine.leave(call)
        self._on_close()

    def _wait(self) -> bool:
        """Sleep until the call changes. Returns False if it has not changed for KEEP_ALIVE_SECONDS."""
        self._call.send_now = self._send_now
        keep_alive_at = time.monotonic() + KEEP_ALIVE_SECONDS
        try:
            self._call.wait(keep_alive_at if self._until is None else min(keep_alive_at, self._until))
        except TimeoutError:
            if self._until is None or keep_alive_at < self._until:
                return False
            error = ApiError(
                f"the response was not complete by this client's deadline of {self._deadline:g} seconds",
                status=408,
                code="deadline_exceeded",
            )
            call = self._call
            call.fail(error)
            self._engine.leave(call)
            call.is_closed = False  # `leave` set it, but the client is connected and gets the error
        finally:
            self._call.send_now = None
        return True

    def _call_headers(self) -> list[tuple[str, str]]:
        """Return headers with the call's id, its session, the record that submitted it, and a link to that step."""
        call = self._call
        found = [("X-Request-Id", call.id), ("X-KVTheater-Theater", call.session_id), ("Cache-Control", "no-store")]
        if call.first_record is None:
            return found
        link = f"{self._address}?theater={call.session_id}&step={call.first_record}&distance=bench"
        return [*found, ("X-KVTheater-Record", str(call.first_record)), ("X-KVTheater-Link", link)]
