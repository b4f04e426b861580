"""Where requests wait before an engine takes them: one lane a client, and the lanes take turns.

A thousand requests of one client wait in one lane, so the single one of another is the next but one.
"""

from __future__ import annotations

from bisect import insort
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Full(Exception):
    """A lane, or all of them together, have as many as they may."""


class _Waiting(NamedTuple):
    priority: int
    arrival: int
    item: object  # never compared: no two have one arrival


class Lanes(Generic[T]):
    """In a lane the lowest `priority` goes first, of equals who came first. Not thread-safe."""

    def __init__(self, most: int) -> None:
        """`most` wait in all lanes together."""
        self._most = most
        self._lanes: dict[str, list[_Waiting]] = {}  # whose turn it is next, first; none is empty
        self._arrivals = 0
        self._count = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._count

    def waiting(self) -> dict[str, int]:
        """How many of each client wait, in the order of their turns. Any thread may ask."""
        return {client: len(lane) for client, lane in tuple(self._lanes.items())}

    def put(self, client: str, item: T, most: int, priority: int = 0) -> None:
        """Into the client's lane, which holds `most`.

        Raises:
            Full: one sentence.
        """
        lane = self._lanes.get(client, [])
        if len(lane) >= most:
            raise Full(f"{len(lane)} requests of this client wait already; a client may have {most}")
        if self._count >= self._most:
            raise Full(f"{self._count} requests wait already; this server takes no more than {self._most}")
        self._arrivals += 1
        self._count += 1
        insort(self._lanes.setdefault(client, lane), _Waiting(priority, self._arrivals, item))

    def take(self) -> T:
        """The next one, whose lane goes to the end of the line. Raises IndexError when nobody waits."""
        if not self._lanes:
            raise IndexError("nobody waits")
        client = next(iter(self._lanes))
        lane = self._lanes.pop(client)
        found = lane.pop(0)
        if lane:
            self._lanes[client] = lane
        self._count -= 1
        return found.item  # type: ignore[return-value]

    def remove(self, client: str, item: T) -> bool:
        """Whether it waited; it does no more."""
        lane = self._lanes.get(client, [])
        for at, waiting in enumerate(lane):
            if waiting.item is item:
                del lane[at]
                if not lane:
                    del self._lanes[client]
                self._count -= 1
                return True
        return False

    def clear(self) -> list[T]:
        """Everybody who waited."""
        found: list[T] = []
        while self._lanes:
            found.append(self.take())
        return found
