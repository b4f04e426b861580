"""Limit on the memory of API requests, from their arrival until the response ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

from app.ground.malloc_trim import TRIM
from app.openai.errors import ApiError
from app.openai.request import ApiRequest

MIB = 1024 * 1024
MAX_OF_CLIENT = 128 * MIB  # bytes of one client's requests
MAX_OF_ALL = 512 * MIB  # bytes of all clients' requests
TOKEN_BYTES = 40  # memory of a token id in a list
CHARACTER_BYTES = 4
REQUEST_BYTES = 64 * 1024  # per request: its sampling parameters and its connection


def bytes_of(request: ApiRequest) -> int:
    """Return the approximate memory of a request in bytes."""
    prompts = (len(one.token_ids) * TOKEN_BYTES + len(one.text or "") * CHARACTER_BYTES for one in request.prompts)
    return REQUEST_BYTES + sum(prompts)


class MemoryBudget:
    """Bytes of requests by client, and their limits. Every method may be called from any thread."""

    def __init__(self, max_of_client: int = MAX_OF_CLIENT, max_of_all: int = MAX_OF_ALL) -> None:
        self._max_of_client, self._max_of_all = max_of_client, max_of_all
        self._used: dict[str, int] = {}  # by client
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        return sum(self._used.values())

    def allocate(self, client: str, num_bytes: int) -> Callable[[], None]:
        """Count the bytes of a request. Returns a function that releases them; further calls of it have no effect.

        Raises:
            ApiError: 429, the request would exceed the limit of this client or of all clients.
        """
        with self._lock:
            used = self._used.get(client, 0)
            exceeds_own = used + num_bytes > self._max_of_client
            if exceeds_own or self.total + num_bytes > self._max_of_all:
                owner = "this client" if exceeds_own else "all clients"
                raise ApiError(
                    f"the waiting requests of {owner} use all memory allowed for them; retry after a response",
                    status=429,
                    code="rate_limit_exceeded",
                    retry_after=5,
                )
            self._used[client] = used + num_bytes
        allocated = [num_bytes]

        def release() -> None:
            with self._lock:
                if allocated:
                    self._used[client] -= allocated.pop()
                    if not self._used[client]:
                        del self._used[client]
            TRIM.freed(num_bytes)

        return release
