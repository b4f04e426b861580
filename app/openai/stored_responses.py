"""Store of conversations for `previous_response_id`, in memory only. The oldest conversations are evicted."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, defaultdict

import msgspec

from app.openai.bodies import ChatMessage
from app.openai.errors import ApiError

MIB = 1024 * 1024
MAX_STORED_OF_ONE = 16 * MIB  # bytes of one client's conversations
MAX_STORED = 64 * MIB  # bytes of all conversations


class StoredResponses:
    """Conversations by client and response id. Every method may be called from any thread."""

    def __init__(self, max_of_one: int = MAX_STORED_OF_ONE, max_of_all: int = MAX_STORED) -> None:
        self._max_of_one, self._max_of_all = max_of_one, max_of_all
        self._stored: OrderedDict[tuple[str, str], bytes] = OrderedDict()  # oldest first
        self._of_client: defaultdict[str, OrderedDict[str, None]] = defaultdict(OrderedDict)  # ids, oldest first
        self._sizes: Counter[str] = Counter()  # by client
        self._total = 0
        self._lock = threading.Lock()

    def put(self, client: str, response_id: str, data: bytes) -> None:
        """Store an encoded conversation. No-op if it alone exceeds a client's share."""
        if len(data) > self._max_of_one:
            return
        with self._lock:
            self._stored[client, response_id] = data
            self._of_client[client][response_id] = None
            self._sizes[client] += len(data)
            self._total += len(data)
            while self._sizes[client] > self._max_of_one:
                self._evict(client, next(iter(self._of_client[client])))
            while self._total > self._max_of_all:
                self._evict(*next(iter(self._stored)))

    def get(self, client: str, response_id: str) -> list[ChatMessage]:
        """Return a conversation of this client.

        Raises:
            ApiError: the client has no response of that id.
        """
        with self._lock:
            data = self._stored.get((client, response_id))
        if data is None:
            raise ApiError(
                f"this client has no stored response {response_id[:80]!r}; send the whole conversation",
                "previous_response_id",
                code="previous_response_not_found",
            )
        return msgspec.json.decode(data, type=list[ChatMessage])

    def _evict(self, client: str, response_id: str) -> None:
        size = len(self._stored.pop((client, response_id)))
        del self._of_client[client][response_id]
        self._sizes[client] -= size
        self._total -= size
        if not self._of_client[client]:
            del self._of_client[client], self._sizes[client]
