"""Response to one call, written as fast as its connection accepts it."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator

import msgspec

from app.openai.engine import AsyncEngine
from app.openai.errors import ApiError
from app.openai.shape import Shape
from app.transport.async_response import AsyncResponse

PATIENCE = 15.0  # seconds without a byte of a stream, after which a sign of life is sent: proxies end reading after 60


class Answering(AsyncResponse):
    """Streamed response to one call. A client that stops reading loses only its own call."""

    def __init__(
        self,
        shape: Shape,
        engine: AsyncEngine,
        address: str,
        deadline: float | None,
        log_outcome: Callable[..., object],
        over: Callable[[], None] = lambda: None,
    ) -> None:
        """`address`: of the page, for a link to the call's first step; `deadline`: seconds from the call's arrival;
        `log_outcome`: called at the end with fields for the access log; `over`: called after it.
        """
        self._over = over
        self._shape, self._engine, self._address = shape, engine, address
        self._call = call = shape.call
        self._deadline, self._log_outcome = deadline, log_outcome
        self._until = None if deadline is None else call.arrived_at + deadline
        self._body = b""  # of a response that is not streamed

    def head(self) -> tuple[str, list[tuple[str, str]]]:
        call = self._call
        while not call.is_done and not (call.request.stream and call.first_record is not None):
            if not self._wait() and call.request.stream:
                break
        if call.is_closed:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the client has left")  # gevent looks at the number
        if call.error is not None:
            status, headers, self._body = call.error.response(self._shape.path)
            return status, [*headers, *self._about()]
        if call.request.stream:
            kind = [("Content-Type", "text/event-stream; charset=utf-8"), ("X-Accel-Buffering", "no")]  # nginx's word
            return "200 OK", [*kind, *self._about()]
        self._body = msgspec.json.encode(self._shape.whole())
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(self._body)))]
        return "200 OK", [*headers, *self._about()]

    def __iter__(self) -> Iterator[bytes]:
        if self._body or not self._call.request.stream:
            yield self._body
            return
        call = self._call
        while not call.is_closed:
            if self.connection is not None:
                self.connection.send_rest()
            events = self._shape.chunks()
            if call.is_done:
                if not call.is_closed:
                    events += self._shape.last_chunks() if call.error is None else self._shape.failed(call.error)
                    yield b"".join(events)
                return
            if events:
                yield b"".join(events)
            elif not self._wait():
                yield self._shape.alive

    def _tell(self) -> bool:
        """Write new output without waking the greenlet of the response. Returns False if the greenlet must wake."""
        call, connection = self._call, self.connection
        if connection is None or connection.has_rest or not connection.headers_sent or call.is_done:
            return False
        events = self._shape.chunks()
        return not events or connection.send_now(b"".join(events))

    def gone(self) -> None:
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
        self._over()

    def _wait(self) -> bool:
        """Sleep until something has changed; False: nothing has for PATIENCE seconds."""
        self._call.tell = self._tell
        late = time.monotonic() + PATIENCE
        try:
            self._call.wait(late if self._until is None else min(late, self._until))
        except TimeoutError:
            if self._until is None or late < self._until:
                return False
            error = ApiError(
                f"the answer was not complete after {self._deadline:g} seconds, this client's deadline",
                status=408,
                code="deadline_exceeded",
            )
            call = self._call
            call.fail(error)
            self._engine.leave(call)
            call.is_closed = False  # its client is connected, and is notified
        finally:
            self._call.tell = None
        return True

    def _about(self) -> list[tuple[str, str]]:
        """Return headers with the record that submitted the call, and a link to the page at that step."""
        call = self._call
        found = [("X-Request-Id", call.id), ("X-KVTheater-Theater", call.session_id), ("Cache-Control", "no-store")]
        if call.first_record is None:
            return found
        link = f"{self._address}?theater={call.session_id}&step={call.first_record}&distance=bench"
        return [*found, ("X-KVTheater-Record", str(call.first_record)), ("X-KVTheater-Link", link)]
