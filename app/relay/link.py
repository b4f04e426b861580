"""Link of a web worker to the server."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

import gevent
from gevent.event import AsyncResult

from app import __version__
from app.ground.callers import Credentials
from app.ground.errors import AppError, refuse
from app.relay import wire
from app.relay.bus import Bus, server_channel, without_password, worker_channel
from app.relay.relays import FLUSH_SECONDS, HEARTBEAT_SECONDS, SILENCE_SECONDS
from app.transport.clients import Clients
from app.transport.hub import Hub

HELLO_SECONDS = 2.0  # without a reply, after which hello is resent
IDENTITY_SECONDS = 60.0  # for which an identity is cached
MAX_IDENTITIES = 4096
IDENTIFY_SECONDS = 10.0  # timeout of an identity request
ACK_SECONDS = 0.005  # for which acknowledgements are batched

logger = logging.getLogger(__name__)


class Link:
    """Worker's end of the link. On the hub thread, except `start` and `stop`."""

    def __init__(self, url: str, hub: Hub, clients: Clients, on_refused: Callable[[str], None]) -> None:
        """Prepare a link. `on_refused` is called with the reason if the server rejects this worker.

        Raises:
            BusError: no message queue can be used at `url`.
        """
        self._url, self._hub, self._clients, self._on_refused = url, hub, clients, on_refused
        self._name = secrets.token_hex(8)
        self._server_channel = server_channel(url)
        self.server: str | None = None  # HTTP address of the server, from its welcome
        self._link = 0
        self._is_up = self._is_linked = self._is_reported = self._is_stopped = False
        self._next_in = self._next_out = 0
        self._received_at = self._sent_at = 0.0
        self._waiting: list[wire.Up] = []
        self._numbers = itertools.count(1)
        self._client_of: dict[str, int] = {}
        self._sid_of: dict[int, str] = {}
        self._on_handled: dict[int, Callable[[], None]] = {}  # callbacks of forwarded events, by number
        self._identifying: dict[int, AsyncResult] = {}
        self._identities: dict[Credentials, tuple[float, wire.Identity]] = {}  # cached, with the time of the reply
        self._acknowledged: dict[int, list[int]] = {}  # clients by packet number, not sent yet
        self._bus = Bus(
            url,
            worker_channel(url, self._name),
            on_message=lambda data: hub.call(lambda: self._receive(data)),
            on_subscribed=lambda: hub.call(self._on_subscribed),
            on_lost=lambda reason: hub.call(lambda: self._on_lost(reason)),
            on_undelivered=lambda _: hub.call(self._on_undelivered),
        )

    def start(self) -> None:
        self._bus.start()
        self._hub.call(lambda: gevent.spawn(self._send_heartbeats) and None)

    def stop(self) -> None:
        """Report all clients as disconnected, and close the bus."""

        def end() -> None:
            self._is_stopped = True
            for sid in list(self._client_of):
                self.disconnect(sid)
            self._flush()

        self._hub.run_greenlet(end)
        self._bus.close(FLUSH_SECONDS)

    @property
    def is_linked(self) -> bool:
        return self._is_linked

    def identify(self, credentials: Credentials) -> wire.Identity:
        """Return the server's identity for credentials. Called on a greenlet.

        Raises:
            AppError: `loading`: the server is not reachable now.
        """
        at, cached = self._identities.get(credentials, (0.0, None))
        if cached is not None and time.monotonic() < at + IDENTITY_SECONDS:
            return cached
        if not self._is_linked:
            raise server_unreachable()
        number, result = next(self._numbers), AsyncResult()
        self._identifying[number] = result
        self._queue(wire.Identify(number, credentials))
        answer: wire.Identity | None = result.wait(IDENTIFY_SECONDS)
        self._identifying.pop(number, None)
        if answer is None:
            raise server_unreachable()
        if answer.is_owner or answer.seat:  # unknown credentials may become valid shortly, so they are not cached
            self._identities.pop(credentials, None)
            self._identities[credentials] = time.monotonic(), answer
            while len(self._identities) > MAX_IDENTITIES:
                del self._identities[next(iter(self._identities))]
        return answer

    def connect(self, sid: str, credentials: Credentials, address: str) -> None:
        """Report a new client."""
        if not self._is_linked:  # the link broke while the client connected
            return self._clients.drop(sid)
        client = self._client_of[sid] = next(self._numbers)
        self._sid_of[client] = sid
        self._queue(wire.ClientConnected(client, credentials, address))

    def disconnect(self, sid: str) -> None:
        """Report a disconnected client."""
        if client := self._client_of.pop(sid, None):
            del self._sid_of[client]
            self._queue(wire.ClientDisconnected(client))

    def forward_event(self, sid: str, message: bytes, on_handled: Callable[[], None]) -> None:
        """Forward an event. `on_handled` is called after the event was handled or lost."""
        client = self._client_of.get(sid)
        if client is None:
            return on_handled()
        number = next(self._numbers)
        self._on_handled[number] = on_handled
        self._queue(wire.EventPacket(client, number, message))

    def _on_subscribed(self) -> None:
        self._is_up = True
        self._send_hello()

    def _on_lost(self, reason: str) -> None:
        self._is_up = False
        self._drop_link(f"the message queue at {without_password(self._url)} is unreachable ({reason})")

    def _on_undelivered(self) -> None:
        self._drop_link(f"no server listens at {without_password(self._url)}")

    def _send_hello(self) -> None:
        self._link += 1
        self._next_in = self._next_out = 0
        self._waiting = [wire.Hello(__version__)]
        self._flush()

    def _drop_link(self, reason: str) -> None:
        """Drop the link. Messages may be lost, so all clients are disconnected; they reconnect and resume."""
        if not self._is_linked:
            if not self._is_reported and not self._is_stopped:
                logger.warning("%s; this worker waits until it is back", reason)
                self._is_reported = True
            return
        self._is_linked, self._is_reported, self._sent_at = False, True, 0.0
        logger.warning("%s; this worker accepts clients again when the server is back", reason)
        callbacks, self._on_handled = self._on_handled, {}
        self._client_of, self._sid_of = {}, {}
        self._identities, self._acknowledged, self._waiting = {}, {}, []
        self._clients.drop_all()
        for on_handled in callbacks.values():
            on_handled()
        for result in self._identifying.values():
            result.set(None)

    def _receive(self, data: bytes) -> None:
        frame = wire.read_down(data)
        if frame is None or frame.link != self._link or self._is_stopped:
            return
        if frame.messages and isinstance(frame.messages[-1], wire.Bye):
            self._drop_link("the server has ended, or has dropped this worker")
            return
        if frame.index != self._next_in:
            self._drop_link("a message was lost")
            return
        self._next_in += 1
        self._received_at = time.monotonic()
        for message in frame.messages:
            self._handle(message)

    def _send_heartbeats(self) -> None:
        while not self._is_stopped:
            now = time.monotonic()
            if self._is_linked and now - self._received_at > SILENCE_SECONDS:
                self._drop_link("the server sends no more messages")
            elif self._is_linked and now - self._sent_at > HEARTBEAT_SECONDS:
                self._flush()
            elif self._is_up and not self._is_linked and now - self._sent_at > HELLO_SECONDS:
                self._send_hello()
            gevent.sleep(HEARTBEAT_SECONDS / 2)

    def _handle(self, message: wire.Down) -> None:
        match message:
            case wire.Welcome(server):
                self.server, self._is_linked = server, True
                if self._is_reported:
                    logger.warning("the server is back")
                self._is_reported = False
            case wire.Refused(reason):
                self._on_refused(reason)
            case wire.Identity(number):
                if result := self._identifying.get(number):
                    result.set(message)
            case wire.EventHandled(client, number, packet):
                if packet is not None and (sid := self._sid_of.get(client)):
                    self._clients.deliver(packet, [sid])
                if on_handled := self._on_handled.pop(number, None):
                    on_handled()
            case wire.Delivery():
                self._deliver(message)

    def _deliver(self, message: wire.Delivery) -> None:
        numbers = self._sid_of if message.clients is None else message.clients
        sids = [sid for client in numbers if (sid := self._sid_of.get(client))]
        report, number = message.report, message.number
        self._clients.deliver(
            message.packet,
            sids,
            number,
            None if number is None else lambda sid: self._acknowledge(number, sid),
            None if report is None else lambda seconds: self._queue(wire.WriteReport(report, seconds)),
        )

    def _acknowledge(self, number: int, sid: str) -> None:
        """Queue an acknowledgement. Those of hundreds of clients within ACK_SECONDS are sent as one message."""
        if not self._acknowledged:
            gevent.spawn_later(ACK_SECONDS, self._send_acknowledged)
        if client := self._client_of.get(sid):
            self._acknowledged.setdefault(number, []).append(client)

    def _send_acknowledged(self) -> None:
        acknowledged, self._acknowledged = self._acknowledged, {}
        for number, clients in acknowledged.items():
            self._queue(wire.Acknowledgement(number, clients))

    def _queue(self, message: wire.Up) -> None:
        if not self._is_linked:
            return
        self._waiting.append(message)
        if len(self._waiting) == 1:
            gevent.get_hub().loop.run_callback(self._flush)

    def _flush(self) -> None:
        """Send the queued messages, or an empty frame as heartbeat."""
        waiting, self._waiting = self._waiting, []
        frame: Any = wire.UpFrame(self._name, self._link, self._next_out, waiting)
        self._bus.send(self._server_channel, wire.encode(frame))
        self._next_out += 1
        self._sent_at = time.monotonic()


def server_unreachable() -> AppError:
    """Return the error to raise while the server is not reachable."""
    return refuse("loading", "relay.away")
