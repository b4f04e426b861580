"""Link of a web worker to the engine's process."""

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
from app.ground.callers import Shown
from app.ground.errors import AppError, refuse
from app.relay import wire
from app.relay.bus import Bus, server_channel, without_password, worker_channel
from app.relay.relays import BEAT, FLUSH_SECONDS, SILENCE
from app.transport.clients import Clients
from app.transport.hub import Hub

HELLO_SECONDS = 2.0  # without a reply, after which hello is sent again
IDENTITY_SECONDS = 60.0  # for which an identity is cached
MAX_IDENTITIES = 4096
IDENTIFY_SECONDS = 10.0  # timeout of an identity request
ACK_SECONDS = 0.005  # for which acknowledgements are batched

logger = logging.getLogger(__name__)


class Link:
    """Worker's end of the link. On the hub thread, except `start` and `stop`."""

    def __init__(self, url: str, hub: Hub, clients: Clients, refused: Callable[[str], None]) -> None:
        """Prepare a link. `refused(why)`: called if the engine's process rejects this worker.

        Raises:
            BusError: no message queue can be used at `url`.
        """
        self._url, self._hub, self._clients, self._refused = url, hub, clients, refused
        self._name = secrets.token_hex(8)
        self._to = server_channel(url)
        self.server: str | None = None  # HTTP address of the engine's process, from its welcome
        self._link = 0
        self._is_up = self._is_linked = self._is_reported = self._stopped = False
        self._next_in = self._next_out = 0
        self._received_at = self._sent_at = 0.0
        self._waiting: list[wire.Up] = []
        self._numbers = itertools.count(1)
        self._client_of: dict[str, int] = {}
        self._sid_of: dict[int, str] = {}
        self._over: dict[int, Callable[[], None]] = {}  # events in progress at the engine's process
        self._identifying: dict[int, AsyncResult] = {}
        self._known: dict[Shown, tuple[float, wire.Known]] = {}
        self._has: dict[int, list[int]] = {}
        self._bus = Bus(
            url,
            worker_channel(url, self._name),
            received=lambda data: hub.call(lambda: self._receive(data)),
            came=lambda: hub.call(self._connected),
            lost=lambda why: hub.call(lambda: self._went_down(why)),
            undelivered=lambda _: hub.call(self._on_undelivered),
        )

    def start(self) -> None:
        self._bus.start()
        self._hub.call(lambda: gevent.spawn(self._beat) and None)

    def stop(self) -> None:
        """Report all clients as gone, and close the bus."""

        def end() -> None:
            self._stopped = True
            for sid in list(self._client_of):
                self.went(sid)
            self._flush()

        self._hub.run_greenlet(end)
        self._bus.close(FLUSH_SECONDS)

    @property
    def is_linked(self) -> bool:
        return self._is_linked

    def identify(self, shows: Shown) -> wire.Known:
        """Return the identity of credentials, from the engine's process. Called on a greenlet.

        Raises:
            AppError: `loading`: the engine's process is not reachable now.
        """
        at, found = self._known.get(shows, (0.0, None))
        if found is not None and time.monotonic() < at + IDENTITY_SECONDS:
            return found
        if not self._is_linked:
            raise server_unreachable()
        number, result = next(self._numbers), AsyncResult()
        self._identifying[number] = result
        self._say(wire.Identify(number, shows))
        answer: wire.Known | None = result.wait(IDENTIFY_SECONDS)
        self._identifying.pop(number, None)
        if answer is None:
            raise server_unreachable()
        if answer.is_owner or answer.seat:  # an unknown pass may become valid shortly, so only known ones are cached
            self._known.pop(shows, None)
            self._known[shows] = time.monotonic(), answer
            while len(self._known) > MAX_IDENTITIES:
                del self._known[next(iter(self._known))]
        return answer

    def came(self, sid: str, shows: Shown, address: str) -> None:
        """Report a new client."""
        if not self._is_linked:  # the link broke while the client connected
            return self._clients.drop(sid)
        client = self._client_of[sid] = next(self._numbers)
        self._sid_of[client] = sid
        self._say(wire.Came(client, shows, address))

    def went(self, sid: str) -> None:
        """Report a disconnected client."""
        if client := self._client_of.pop(sid, None):
            del self._sid_of[client]
            self._say(wire.Gone(client))

    def ask(self, sid: str, message: bytes, over: Callable[[], None]) -> None:
        """Forward an event. `over` is called after the event was handled or lost."""
        client = self._client_of.get(sid)
        if client is None:
            return over()
        number = next(self._numbers)
        self._over[number] = over
        self._say(wire.EventPacket(client, number, message))

    def _connected(self) -> None:
        self._is_up = True
        self._hello()

    def _went_down(self, why: str) -> None:
        self._is_up = False
        self._lose(f"the message queue at {without_password(self._url)} is unreachable ({why})")

    def _on_undelivered(self) -> None:
        self._lose(f"no server listens at {without_password(self._url)}")

    def _hello(self) -> None:
        self._link += 1
        self._next_in = self._next_out = 0
        self._waiting = [wire.Hello(__version__)]
        self._flush()

    def _lose(self, why: str) -> None:
        """Drop the link. Messages may be lost, so all clients are disconnected; they reconnect and resume."""
        if not self._is_linked:
            if not self._is_reported and not self._stopped:
                logger.warning("%s: this worker waits until it is back", why)
                self._is_reported = True
            return
        self._is_linked, self._is_reported, self._sent_at = False, True, 0.0
        logger.warning("%s: this worker accepts clients again when the server is back", why)
        over, self._over = self._over, {}
        self._client_of, self._sid_of = {}, {}
        self._known, self._has, self._waiting = {}, {}, []
        self._clients.drop_all()
        for done in over.values():
            done()
        for result in self._identifying.values():
            result.set(None)

    def _receive(self, data: bytes) -> None:
        frame = wire.read_down(data)
        if frame is None or frame.link != self._link or self._stopped:
            return
        if frame.messages and isinstance(frame.messages[-1], wire.Bye):
            self._lose("the server has ended, or has dropped this worker")
            return
        if frame.index != self._next_in:
            self._lose("a message was lost")
            return
        self._next_in += 1
        self._received_at = time.monotonic()
        for message in frame.messages:
            self._take(message)

    def _beat(self) -> None:
        while not self._stopped:
            now = time.monotonic()
            if self._is_linked and now - self._received_at > SILENCE:
                self._lose("the server sends no more messages")
            elif self._is_linked and now - self._sent_at > BEAT:
                self._flush()
            elif self._is_up and not self._is_linked and now - self._sent_at > HELLO_SECONDS:
                self._hello()
            gevent.sleep(BEAT / 2)

    def _take(self, message: wire.Down) -> None:
        match message:
            case wire.Welcome(server):
                self.server, self._is_linked = server, True
                if self._is_reported:
                    logger.warning("the server is back")
                self._is_reported = False
            case wire.Refused(why):
                self._refused(why)
            case wire.Known(number):
                if result := self._identifying.get(number):
                    result.set(message)
            case wire.Answered(client, number, packet):
                if packet is not None and (sid := self._sid_of.get(client)):
                    self._clients.deliver(packet, [sid])
                if over := self._over.pop(number, None):
                    over()
            case wire.Say():
                self._deliver(message)

    def _deliver(self, message: wire.Say) -> None:
        numbers = self._sid_of if message.clients is None else message.clients
        sids = [sid for client in numbers if (sid := self._sid_of.get(client))]
        reported, number = message.reported, message.number
        self._clients.deliver(
            message.packet,
            sids,
            number,
            None if number is None else lambda sid: self._has_it(number, sid),
            None if reported is None else lambda seconds: self._say(wire.Wrote(reported, seconds)),
        )

    def _has_it(self, number: int, sid: str) -> None:
        """Batch acknowledgements: hundreds within ACK_SECONDS become one message."""
        if not self._has:
            gevent.spawn_later(ACK_SECONDS, self._send_acknowledged)
        if client := self._client_of.get(sid):
            self._has.setdefault(number, []).append(client)

    def _send_acknowledged(self) -> None:
        has, self._has = self._has, {}
        for number, clients in has.items():
            self._say(wire.Has(number, clients))

    def _say(self, message: wire.Up) -> None:
        if not self._is_linked:
            return
        self._waiting.append(message)
        if len(self._waiting) == 1:
            gevent.get_hub().loop.run_callback(self._flush)

    def _flush(self) -> None:
        """Send the queued messages, or an empty frame as heartbeat."""
        waiting, self._waiting = self._waiting, []
        frame: Any = wire.UpFrame(self._name, self._link, self._next_out, waiting)
        self._bus.send(self._to, wire.encode(frame))
        self._next_out += 1
        self._sent_at = time.monotonic()


def server_unreachable() -> AppError:
    """Return the error to raise while the engine's process is not reachable."""
    return refuse("loading", "relay.away")
