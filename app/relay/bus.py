"""Message bus over Redis. One thread subscribes to a channel, another publishes, so the hub never waits for Redis.

Messages are neither stored nor retried. They are lost while Redis is unreachable, so senders number their frames.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

RETRY_SECONDS = 0.5  # between two attempts to reach Redis
TIMEOUT_SECONDS = 5.0  # for a reply of Redis
MAX_WAITING = 256 * 1024 * 1024  # unpublished bytes above which the connection counts as broken
MAX_BATCH = 64  # messages published in one pipeline
SCHEMES = ("redis", "rediss", "unix")


class BusError(Exception):
    """The message queue cannot be used. The message is one sentence with a remedy."""


class Bus:
    """Connection to the bus: subscribes to one channel, and publishes on any."""

    def __init__(
        self,
        url: str,
        channel: str,
        on_message: Callable[[bytes], None],
        on_subscribed: Callable[[], None],
        on_lost: Callable[[str], None],
        on_undelivered: Callable[[str], None],
    ) -> None:
        """Prepare a connection. All callbacks run on threads of the bus.

        Args:
            url: address of Redis.
            channel: channel to subscribe to.
            on_message: called with each message.
            on_subscribed: called when the channel is subscribed.
            on_lost: called with the reason when Redis is unreachable and unpublished messages are dropped.
            on_undelivered: called with the channel of a message that had no subscriber.

        Raises:
            BusError: the URL is invalid, or the package redis is not installed.
        """
        self._redis = _client(url)
        self._channel = channel
        self._on_message, self._on_subscribed = on_message, on_subscribed
        self._on_lost, self._on_undelivered = on_lost, on_undelivered
        self._outgoing: SimpleQueue[tuple[str, bytes] | None] = SimpleQueue()
        self._waiting = 0  # unpublished bytes
        self._counting = threading.Lock()
        self._is_up = self._is_closed = False
        self._broken = ""  # why the publishing thread considers the connection broken
        self._threads = [threading.Thread(target=do, name="bus", daemon=True) for do in (self._listen, self._publish)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def send(self, channel: str, data: bytes) -> None:
        """Publish a message, in order. May be called on any thread. Messages are lost while Redis is unreachable."""
        if not self._is_up:
            return
        self._count(len(data))
        if self._waiting > MAX_WAITING:
            self._broken = "it receives messages more slowly than they are sent"
        self._outgoing.put((channel, data))

    def close(self, seconds: float) -> None:
        """Publish the queued messages within `seconds`, and end both threads."""
        end = time.monotonic() + seconds
        while self._is_up and self._waiting and time.monotonic() < end:
            time.sleep(0.01)
        self._is_closed = True
        self._outgoing.put(None)
        for thread in self._threads:
            thread.join(seconds)

    def _listen(self) -> None:
        import redis

        while not self._is_closed:
            reason = ""
            try:
                with contextlib.closing(self._redis.pubsub()) as subscription:
                    subscription.subscribe(self._channel)
                    while not self._is_closed and not self._broken:
                        message = subscription.get_message(timeout=RETRY_SECONDS)
                        if message is None:
                            continue
                        if message["type"] == "subscribe":
                            self._is_up = True
                            self._on_subscribed()
                        elif message["type"] == "message":
                            self._on_message(message["data"])
            except (redis.RedisError, OSError) as error:
                reason = str(error)
            if self._is_up:
                self._is_up = False
                self._on_lost(self._broken or reason or "it does not answer")
            self._broken = ""
            if not self._is_closed:
                time.sleep(RETRY_SECONDS)

    def _publish(self) -> None:
        import redis

        while (found := self._next()) is not None:
            size = sum(len(data) for _, data in found)
            try:
                if self._is_up:
                    pipe = self._redis.pipeline(transaction=False)
                    for channel, data in found:
                        pipe.publish(channel, data)
                    counts = pipe.execute()
                    for channel in {channel for (channel, _), count in zip(found, counts, strict=True) if not count}:
                        self._on_undelivered(channel)
            except (redis.RedisError, OSError) as error:
                self._broken = str(error) or type(error).__name__
            self._count(-size)

    def _next(self) -> list[tuple[str, bytes]] | None:
        """Wait for a message, and return all queued messages; None after `close`."""
        found = [self._outgoing.get()]
        with contextlib.suppress(Empty):
            while len(found) < MAX_BATCH:
                found.append(self._outgoing.get_nowait())
        return None if None in found else [one for one in found if one is not None]

    def _count(self, size: int) -> None:
        with self._counting:
            self._waiting += size


def server_channel(url: str) -> str:
    """Return the server's channel.

    All databases of a Redis share its channels. The channel's name therefore contains the database's number, so that
    each database can have a server.
    """
    return f"kvtheater:{_database(url)}:server"


def worker_channel(url: str, worker: str) -> str:
    """Return the channel of a worker."""
    return f"kvtheater:{_database(url)}:{worker}"


def check(url: str, is_server: bool) -> None:
    """Raise BusError unless Redis answers at the URL and, for a server, no other server uses it."""
    found = _client(url)
    import redis

    try:
        ((_, listeners),) = found.pubsub_numsub(server_channel(url))
    except (redis.RedisError, OSError) as error:
        raise BusError(
            f"no Redis answers at {without_password(url)} ({error}); start one, for example with redis-server"
        ) from error
    finally:
        found.close()
    if is_server and listeners:
        raise BusError(
            f"another server uses {without_password(url)}; stop it, or use another database, such as redis://HOST/1"
        )


def without_password(url: str) -> str:
    """Return the URL without its password."""
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
        raise BusError(f"{without_password(url)!r} is not a Redis URL such as redis://HOST:PORT/DATABASE")
    try:
        # no retries, because a duplicate message breaks a link like a lost one
        return redis.Redis.from_url(
            url, retry=Retry(NoBackoff(), 0), socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
        )
    except ValueError as error:
        raise BusError(f"{without_password(url)!r} is not a Redis URL: {error}") from error


def _database(url: str) -> str:
    return urlsplit(url).path.strip("/") or "0"
