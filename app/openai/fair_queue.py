"""Round-robin queue of requests in front of an engine: one queue per client, served in turn.

A client with a thousand requests waits in its own queue, so another client's request is served at the next turn.
"""

from __future__ import annotations

from bisect import insort
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Full(Exception):
    """The queue of a client, or all queues together, are at their limit."""


class _Waiting(NamedTuple):
    priority: int
    arrival: int
    item: object  # never compared, since arrivals are unique


class FairQueue(Generic[T]):
    """Round-robin queue. A client's items are ordered by lowest `priority`, then by arrival. Not thread-safe."""

    def __init__(self, max_total: int) -> None:
        """`max_total`: maximum number of items of all clients."""
        self._max_total = max_total
        self._queues: dict[str, list[_Waiting]] = {}  # by client, in the order of turns; without empty queues
        self._arrivals = 0
        self._count = 0

    def __len__(self) -> int:
        """Return the number of waiting items."""
        return self._count

    def waiting(self) -> dict[str, int]:
        """Return the number of waiting items per client, in the order of their turns. May be called on any thread."""
        return {client: len(queue) for client, queue in tuple(self._queues.items())}

    def put(self, client: str, item: T, max_of_client: int, priority: int = 0) -> None:
        """Append to the queue of a client, which may have `max_of_client` items.

        Raises:
            Full: the client's queue or all queues together are full. The message is one sentence.
        """
        queue = self._queues.get(client, [])
        if len(queue) >= max_of_client:
            raise Full(f"{len(queue)} requests of this client are waiting; a client may have {max_of_client}")
        if self._count >= self._max_total:
            raise Full(f"{self._count} requests are waiting; this server queues at most {self._max_total}")
        self._arrivals += 1
        self._count += 1
        insort(self._queues.setdefault(client, queue), _Waiting(priority, self._arrivals, item))

    def take(self) -> T:
        """Return the next item, and move its client to the end. Raises IndexError if the queue is empty."""
        if not self._queues:
            raise IndexError("the queue is empty")
        client = next(iter(self._queues))
        queue = self._queues.pop(client)
        found = queue.pop(0)
        if queue:
            self._queues[client] = queue
        self._count -= 1
        return found.item  # type: ignore[return-value]

    def remove(self, client: str, item: T) -> bool:
        """Remove an item. Returns whether it was waiting."""
        queue = self._queues.get(client, [])
        for at, waiting in enumerate(queue):
            if waiting.item is item:
                del queue[at]
                if not queue:
                    del self._queues[client]
                self._count -= 1
                return True
        return False

    def clear(self) -> list[T]:
        """Remove and return all items, in the order of their turns."""
        found: list[T] = []
        while self._queues:
            found.append(self.take())
        return found
