"""Accounting of the memory that API requests hold from arrival until the response ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

from app.ground.malloc_trim import TRIM
from app.openai.errors import ApiError
from app.openai.request import ApiRequest

MIB = 1024 * 1024
MAX_OF_ONE = 128 * MIB  # bytes of one client's requests
MOST = 512 * MIB  # bytes of all requests
TOKEN_BYTES = 40  # memory of a token id in a list
CHARACTER_BYTES = 4
REQUEST_BYTES = 64 * 1024  # per request: its sampling parameters and its connection


def bytes_of(request: ApiRequest) -> int:
    """Return the approximate bytes that a request holds."""
    prompts = (len(one.token_ids) * TOKEN_BYTES + len(one.text or "") * CHARACTER_BYTES for one in request.prompts)
    return REQUEST_BYTES + sum(prompts)


class Held:
    """Bytes held, by client. Every method may be called from any thread."""

    def __init__(self, most_of_one: int = MAX_OF_ONE, most: int = MOST) -> None:
        self._most_of_one, self._most = most_of_one, most
        self._of: dict[str, int] = {}  # by client
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        return sum(self._of.values())

    def take(self, client: str, num_bytes: int) -> Callable[[], None]:
        """Account for a request. Returns the function that releases its bytes; a second call of it releases nothing.

        Raises:
            ApiError: 429, this client's requests or those of all clients would hold too much.
        """
        with self._lock:
            mine, total = self._of.get(client, 0), self.total
            if mine + num_bytes > self._most_of_one or total + num_bytes > self._most:
                owner = "this client's" if mine + num_bytes > self._most_of_one else "all clients'"
                raise ApiError(
                    f"{owner} waiting requests hold as much memory as they may; wait for an answer, then send it again",
                    status=429,
                    code="rate_limit_exceeded",
                    retry_after=5,
                )
            self._of[client] = mine + num_bytes
        left = [num_bytes]

        def over() -> None:
            with self._lock:
                if left:
                    self._of[client] -= left.pop()
                    if not self._of[client]:
                        del self._of[client]
            TRIM.freed(num_bytes)

        return over
