"""Redis as a wire: one thread subscribes to a channel, one publishes. Neither waits for the hub, nor the hub for them.

Nothing is stored or sent twice: messages are lost while Redis is away, so senders number their frames.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

AGAIN = 0.5  # seconds between two attempts to reach Redis
ANSWER = 5.0  # seconds in which Redis answers
MAX_WAITING = 256 * 1024 * 1024  # bytes that were not published yet: beyond it the wire counts as broken
MAX_AT_ONCE = 64  # messages published in one go
SCHEMES = ("redis", "rediss", "unix")


class BusError(Exception):
    """The message queue cannot be reached; the message is one sentence with a remedy."""


class Bus:
    """End of the wire."""

    def __init__(
        self,
        url: str,
        listens: str,
        received: Callable[[bytes], None],
        came: Callable[[], None],
        lost: Callable[[str], None],
        undelivered: Callable[[str], None],
    ) -> None:
        """Connect. `came`: Redis is there, and the channel `listens` is subscribed; `lost(why)`: it is gone, and
        unpublished
        messages are dropped; `undelivered(channel)`: there was no subscriber. All are called on threads of the bus.

        Raises:
            BusError: an invalid address, or a missing package.
        """
        self._redis = _client(url)
        self._channel = listens
        self._received, self._came, self._lost, self._undelivered = received, came, lost, undelivered
        self._outgoing: SimpleQueue[tuple[str, bytes] | None] = SimpleQueue()
        self._waiting = 0
        self._counting = threading.Lock()
        self._up = self._closed = False
        self._broken = ""  # why the publishing thread has given up on the connection
        self._threads = [threading.Thread(target=do, name="bus", daemon=True) for do in (self._listen, self._publish)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def send(self, channel: str, data: bytes) -> None:
        """Publish, from any thread, in the order of the calls; lost while Redis is away."""
        if not self._up:
            return
        self._count(len(data))
        if self._waiting > MAX_WAITING:
            self._broken = "it receives more slowly than messages are sent"
        self._outgoing.put((channel, data))

    def close(self, seconds: float) -> None:
        """Publish what waits, within so many seconds, and end."""
        end = time.monotonic() + seconds
        while self._up and self._waiting and time.monotonic() < end:
            time.sleep(0.01)
        self._closed = True
        self._outgoing.put(None)
        for thread in self._threads:
            thread.join(seconds)

    def _listen(self) -> None:
        import redis

        while not self._closed:
            why = ""
            try:
                with contextlib.closing(self._redis.pubsub()) as ear:
                    ear.subscribe(self._channel)
                    while not self._closed and not self._broken:
                        message = ear.get_message(timeout=AGAIN)
                        if message is None:
                            continue
                        if message["type"] == "subscribe":
                            self._up = True
                            self._came()
                        elif message["type"] == "message":
                            self._received(message["data"])
            except (redis.RedisError, OSError) as error:
                why = str(error)
            if self._up:
                self._up = False
                self._lost(self._broken or why or "it does not answer")
            self._broken = ""
            if not self._closed:
                time.sleep(AGAIN)

    def _publish(self) -> None:
        import redis

        while (found := self._next()) is not None:
            size = sum(len(data) for _, data in found)
            try:
                if self._up:
                    pipe = self._redis.pipeline(transaction=False)
                    for channel, data in found:
                        pipe.publish(channel, data)
                    counts = pipe.execute()
                    for channel in {channel for (channel, _), count in zip(found, counts, strict=True) if not count}:
                        self._undelivered(channel)
            except (redis.RedisError, OSError) as error:
                self._broken = str(error) or type(error).__name__
            self._count(-size)

    def _next(self) -> list[tuple[str, bytes]] | None:
        """Return the queued messages, waiting for the first; None at the end."""
        found = [self._outgoing.get()]
        with contextlib.suppress(Empty):
            while len(found) < MAX_AT_ONCE:
                found.append(self._outgoing.get_nowait())
        return None if None in found else [one for one in found if one is not None]

    def _count(self, size: int) -> None:
        with self._counting:
            self._waiting += size


def server_channel(url: str) -> str:
    """Return where the engine's process listens. Channels are the same in all of a Redis's databases: the number is
    in the name, so that each database has room for a server.
    """
    return f"kvtheater:{_database(url)}:server"


def worker_channel(url: str, worker: str) -> str:
    """Return where a worker listens."""
    return f"kvtheater:{_database(url)}:{worker}"


def check(url: str, is_server: bool) -> None:
    """Check that Redis answers at the URL; for a server, also that no other server uses it.

    Raises:
        BusError: one sentence.
    """
    found = _client(url)
    import redis

    try:
        ((_, listeners),) = found.pubsub_numsub(server_channel(url))
    except (redis.RedisError, OSError) as error:
        raise BusError(
            f"no Redis answers at {without_password(url)} ({error}): start one, with redis-server say"
        ) from error
    finally:
        found.close()
    if is_server and listeners:
        raise BusError(
            f"another server uses {without_password(url)}: stop it, or give this one another database, as in redis://HOST/1"
        )


def without_password(url: str) -> str:
    """Return the address without a password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _client(url: str) -> Any:
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise BusError("the package redis is missing: pip install 'kvtheater[workers]'") from error
    if urlsplit(url).scheme not in SCHEMES:
        raise BusError(f"{without_password(url)!r} is no address of a Redis: redis://HOST:PORT/DATABASE is one")
    try:
        # tried once: what is sent twice would be as wrong as what is lost
        return redis.Redis.from_url(
            url, retry=Retry(NoBackoff(), 0), socket_timeout=ANSWER, socket_connect_timeout=ANSWER
        )
    except ValueError as error:
        raise BusError(f"{without_password(url)!r} is no address of a Redis: {error}") from error


def _database(url: str) -> str:
    return urlsplit(url).path.strip("/") or "0"
