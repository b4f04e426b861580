"""Subscriber to a publisher's messages over ZeroMQ, which requests replays of missing messages.

A publisher never waits for subscribers. It drops messages for a slow subscriber, which sees a gap.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.observe.monitor.sequence import Sequence, SequenceEvent

if TYPE_CHECKING:
    import zmq

POLL = 0.05  # seconds
REPLY_SECONDS = 3.0  # timeout of a replay; a publisher replies between live messages
MAX_WAITING = 100_000  # receive queue of the socket in messages; beyond this, messages are dropped
END = -1  # number of the message that ends a replay


class MissingError(ValueError):
    """A required package is not installed."""


def zmq_module() -> Any:
    """Import pyzmq. Raises MissingError: it is not installed."""
    try:
        import zmq
    except ImportError as error:
        raise MissingError("attaching to events needs pyzmq: pip install 'kvtheater[attach]'") from error
    return zmq


def rank_endpoint(endpoint: str, rank: int) -> str:
    """Return the endpoint of a data-parallel rank, whose port is the port of rank 0 plus the rank."""
    base, colon, port = endpoint.rpartition(":")
    return f"{base}{colon}{int(port) + rank}" if rank and port.isdigit() else endpoint


class Subscriber:
    """Thread that receives one publisher's messages and passes them on in order."""

    def __init__(
        self,
        events: str,
        replay: str | None,
        topic: str,
        received: Callable[[SequenceEvent], None],
        failed: Callable[[str], None],
    ) -> None:
        """Subscribe. `received` and `failed` are called on the thread. Raises ValueError: invalid endpoint."""
        self._zmq = zmq_module()
        self._events, self._replay, self._on_received, self._failed = events, replay, received, failed
        self._sequence = Sequence(can_replay=replay is not None)
        self._requested_at: float | None = None
        self._stop = threading.Event()
        self._context: Any = self._zmq.Context()
        try:
            self._sub = self._socket(self._zmq.SUB, events)
            self._sub.setsockopt(self._zmq.SUBSCRIBE, topic.encode())
            self._monitor = self._sub.get_monitor_socket(self._zmq.EVENT_CONNECTED | self._zmq.EVENT_DISCONNECTED)
            self._sub.connect(events)
            self._dealer: Any = None
        except self._zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise ValueError(f"{events} is not a valid address of events: {error}") from error
        self._is_connected = False
        self._thread = threading.Thread(target=self._work, name=f"events {events}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _socket(self, kind: int, endpoint: str) -> zmq.Socket[bytes]:
        sock: zmq.Socket[bytes] = self._context.socket(kind)
        sock.setsockopt(self._zmq.RCVHWM, MAX_WAITING)
        sock.setsockopt(self._zmq.LINGER, 0)
        sock.setsockopt(self._zmq.RECONNECT_IVL_MAX, 1000)
        return sock

    def _work(self) -> None:
        zmq = self._zmq
        poller = zmq.Poller()
        poller.register(self._sub, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        try:
            while not self._stop.is_set():
                self._request_replay()
                ready = dict(poller.poll(int(POLL * 1000)))
                if self._monitor in ready:
                    self._read_connection_events()
                if self._sub in ready:
                    self._receive_live()
                self._receive_replies()
        except Exception as error:
            self._failed(f"the events of {self._events} can no longer be read: {error}")
        finally:
            with contextlib.suppress(Exception):
                self._sub.disable_monitor()
            self._context.destroy(linger=0)

    def _request_replay(self) -> None:
        """Request a replay if needed, on a new socket so that late replies to an older request are dropped."""
        first = self._sequence.replay_from
        if first is None or self._replay is None or (self._sequence.next is None and not self._is_connected):
            return
        self._close_dealer()
        self._dealer = self._socket(self._zmq.DEALER, self._replay)
        self._dealer.setsockopt(self._zmq.RCVHWM, 0)
        self._dealer.connect(self._replay)
        self._dealer.send_multipart([b"", first.to_bytes(8, "big")], flags=self._zmq.DONTWAIT)
        self._sequence.replay_from, self._requested_at = None, time.monotonic()

    def _read_connection_events(self) -> None:
        from zmq.utils.monitor import recv_monitor_message

        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            self._is_connected = event == self._zmq.EVENT_CONNECTED
            if self._is_connected:
                self._sequence.reconnected()
            else:
                self._sequence.disconnected()

    def _receive_live(self) -> None:
        for _ in range(1000):  # bounded, so that other sockets are polled as well
            try:
                frames = self._sub.recv_multipart(flags=self._zmq.DONTWAIT)
            except self._zmq.Again:
                return
            if len(frames) >= 2 and len(frames[-2]) == 8:
                for received in self._sequence.live(int.from_bytes(frames[-2], "big"), frames[-1]):
                    self._on_received(received)

    def _receive_replies(self) -> None:
        """Receive replies: `(seq, payload)` or `(topic, seq, payload)`, after an empty delimiter."""
        while self._dealer is not None:
            try:
                frames = self._dealer.recv_multipart(flags=self._zmq.DONTWAIT)
            except self._zmq.Again:
                break
            self._requested_at = time.monotonic()
            if len(frames) < 2 or len(frames[-2]) != 8:
                continue
            sequence = int.from_bytes(frames[-2], "big", signed=True)
            if sequence == END:
                self._close_dealer()
                for received in self._sequence.end_replay():
                    self._on_received(received)
            else:
                self._sequence.add_replayed(sequence, frames[-1])
        if self._requested_at is not None and time.monotonic() - self._requested_at > REPLY_SECONDS:
            self._close_dealer()
            for received in self._sequence.abort_replay():
                self._on_received(received)

    def _close_dealer(self) -> None:
        self._requested_at = None
        if self._dealer is not None:
            self._dealer.close()
            self._dealer = None
