"""Web workers as seen by the engine's process, which handles their clients like its own."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Collection

import gevent

from app import __version__
from app.ground.callers import ADDRESS, OWNER, PASS, Person, Shown
from app.relay import wire
from app.relay.bus import Bus, server_channel, without_password, worker_channel
from app.transport.clients import Acknowledged, Clients, Sent, Slowest
from app.transport.hub import Hub

BEAT = 1.0  # seconds without messages after which an empty frame is sent
SILENCE = 10.0  # seconds without a frame after which the link counts as broken
MAX_WORKERS = 64
FLUSH_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Relays:
    """All web workers. Everything except `start` and `stop` runs on the hub thread."""

    def __init__(
        self,
        url: str,
        hub: Hub,
        clients: Clients,
        recognize: Callable[[Shown], Person],
    ) -> None:
        """Set up the relay. `recognize`: returns the person behind credentials.

        Raises:
            BusError: no message queue can be used at `url`.
        """
        self._url, self._hub, self._clients, self._recognize = url, hub, clients, recognize
        self._here = ""  # HTTP address of this process
        self._relays: dict[str, Relay] = {}  # by the worker's name
        self._relay_of: dict[str, tuple[Relay, int]] = {}  # by client
        self._reported = itertools.count(1)
        self._was_lost = self._stopped = False
        self._bus = Bus(
            url,
            server_channel(url),
            received=lambda data: hub.call(lambda: self._receive(data)),
            came=lambda: hub.call(self._is_back),
            lost=lambda why: hub.call(lambda: self._is_lost(why)),
            undelivered=lambda channel: hub.call(lambda: self._on_undelivered(channel)),
        )
        clients.remote = self

    def __len__(self) -> int:
        """Return the number of workers."""
        return len(self._relays)

    def start(self, here: str) -> None:
        """Accept workers. `here`: HTTP address of this process, to which workers forward requests."""
        self._here = here
        self._bus.start()
        self._hub.call(lambda: gevent.spawn(self._beat) and None)

    def stop(self) -> None:
        """Disconnect the workers after sending all queued messages."""
        self._hub.run_greenlet(self._end_all)
        self._bus.close(FLUSH_SECONDS)

    def has(self, sid: str) -> bool:
        return sid in self._relay_of

    def deliver(
        self,
        packed: bytes,
        sids: Collection[str] | None,
        number: int | None,
        acknowledged: Acknowledged | None,
        sent: Sent | None,
    ) -> None:
        """Send one message to each worker that has recipients."""
        chosen: dict[Relay, list[int] | None] = {}
        if sids is None:
            chosen = dict.fromkeys(self._relays.values())
        for sid in sids or ():
            if found := self._relay_of.get(sid):
                relay, client = found
                numbers = chosen.setdefault(relay, [])
                assert numbers is not None
                numbers.append(client)
        slowest = Slowest(len(chosen), sent) if sent and chosen else None
        if sent and not chosen:
            sent(0.0)
        for relay, clients in chosen.items():
            if number is not None and acknowledged is not None:
                for client in clients or ():
                    relay.clients[client][number] = acknowledged
            reported = None
            if slowest is not None:
                reported = next(self._reported)
                relay.reports[reported] = slowest
            self._say(relay, wire.Say(packed, clients, number, reported))

    def _receive(self, data: bytes) -> None:
        frame = wire.read_up(data)
        if frame is None or self._stopped:
            return
        relay = self._relays.get(frame.worker)
        if frame.index == 0 and frame.messages and isinstance(frame.messages[0], wire.Hello):
            self._begin(frame.worker, frame.link, frame.messages[0])
            relay = self._relays.get(frame.worker)
            if relay is None:
                return
        elif relay is None or relay.link != frame.link:
            if relay is None or frame.link > relay.link:  # linked before this process started
                self._publish(frame.worker, frame.link, 0, [wire.Bye()])
            return
        if frame.index != relay.next_in:
            self._end(relay)
            return
        relay.next_in += 1
        relay.received_at = time.monotonic()
        for message in frame.messages:
            self._take(relay, message)

    def _begin(self, worker: str, link: int, hello: wire.Hello) -> None:
        if before := self._relays.get(worker):
            self._forget(before)
        why = ""
        if hello.version != __version__:
            why = f"the server is KV Theater {__version__} and this worker {hello.version}: install the same version"
        elif len(self._relays) >= MAX_WORKERS:
            why = f"this server has {MAX_WORKERS} workers already, the maximum"
        if why:
            self._publish(worker, link, 0, [wire.Refused(why)])
            return
        relay = self._relays[worker] = Relay(worker, link)
        self._say(relay, wire.Welcome(self._here))

    def _end(self, relay: Relay) -> None:
        """End a broken link. Its worker restarts it."""
        self._say(relay, wire.Bye())
        self._flush(relay)
        self._forget(relay)

    def _end_all(self) -> None:
        self._stopped = True
        for relay in list(self._relays.values()):
            self._end(relay)

    def _forget(self, relay: Relay) -> None:
        """Remove a worker and its clients."""
        if self._relays.get(relay.worker) is relay:
            del self._relays[relay.worker]
        for client in list(relay.clients):
            self._went(relay, client)
        reports, relay.reports = relay.reports, {}
        for report in reports.values():
            report(0.0)

    def _is_back(self) -> None:
        if self._was_lost:
            logger.warning(
                "the message queue at %s is back: workers reconnect by themselves", without_password(self._url)
            )
        self._was_lost = False

    def _is_lost(self, why: str) -> None:
        if not self._stopped and not self._was_lost:
            logger.warning(
                "the message queue at %s is unreachable (%s): clients of web workers wait until it is back",
                without_password(self._url),
                why,
            )
        self._was_lost = True
        for relay in list(self._relays.values()):
            self._forget(relay)

    def _on_undelivered(self, channel: str) -> None:
        """Handle a message without a subscriber: its worker has ended."""
        for relay in list(self._relays.values()):
            if worker_channel(self._url, relay.worker) == channel:
                self._forget(relay)

    def _beat(self) -> None:
        while not self._stopped:
            now = time.monotonic()
            for relay in list(self._relays.values()):
                if now - relay.received_at > SILENCE:
                    self._end(relay)
                elif now - relay.sent_at > BEAT:
                    self._flush(relay)
            gevent.sleep(BEAT / 2)

    def _take(self, relay: Relay, message: wire.Up) -> None:
        match message:
            case wire.EventPacket(client, number, packet):
                gevent.spawn(self._handle_event, relay, client, number, packet)
            case wire.Has(number, clients):
                for client in clients:
                    acknowledged = relay.clients.get(client, {}).pop(number, None)
                    if acknowledged is not None:
                        acknowledged(relay.sid(client))
            case wire.Wrote(reported, seconds):
                if report := relay.reports.pop(reported, None):
                    report(seconds)
            case wire.Identify(number, shows):
                person = self._recognize(shows)
                seat = person.seat
                self._say(relay, wire.Known(number, person.is_owner, seat and (seat.class_id, seat.seat)))
            case wire.Came(client, shows, address):
                relay.clients[client] = {}
                sid = relay.sid(client)
                self._relay_of[sid] = relay, client
                person = self._recognize(shows)
                self._clients.come(sid, {OWNER: person.is_owner, PASS: person.seat, ADDRESS: address})
            case wire.Gone(client):
                self._went(relay, client)

    def _went(self, relay: Relay, client: int) -> None:
        relay.clients.pop(client, None)
        sid = relay.sid(client)
        if self._relay_of.pop(sid, None):
            self._clients.gone(sid)

    def _handle_event(self, relay: Relay, client: int, number: int, packet: bytes) -> None:
        """Handle an event, on a greenlet."""
        sid = relay.sid(client)
        try:
            answer, then = self._clients.handle_remote(sid, packet)
        except Exception:  # the worker has validated the packet, so this is a bug
            logger.exception("cannot handle an event of a web worker")
            answer, then = None, lambda: None
        self._say(relay, wire.Answered(client, number, answer))
        then()
        if sid not in self._relay_of:
            self._clients.gone(sid)  # it disconnected meanwhile, for example while it became a viewer

    def _say(self, relay: Relay, message: wire.Down) -> None:
        """Queue a message. All messages of one iteration of the event loop are sent in one frame."""
        relay.waiting.append(message)
        if len(relay.waiting) == 1:
            gevent.get_hub().loop.run_callback(self._flush, relay)

    def _flush(self, relay: Relay) -> None:
        """Send the queued messages, or an empty frame as heartbeat."""
        waiting, relay.waiting = relay.waiting, []
        if self._relays.get(relay.worker) is relay:
            self._publish(relay.worker, relay.link, relay.next_out, waiting)
            relay.next_out += 1
            relay.sent_at = time.monotonic()

    def _publish(self, worker: str, link: int, index: int, messages: list[wire.Down]) -> None:
        self._bus.send(worker_channel(self._url, worker), wire.encode(wire.DownFrame(link, index, messages)))


class Relay:
    """Link of a web worker, as seen by the engine's process."""

    def __init__(self, worker: str, link: int) -> None:
        self.worker, self.link = worker, link
        self.clients: dict[int, dict[int, Acknowledged]] = {}  # client -> packet number -> callback
        self.reports: dict[int, Sent] = {}
        self.next_in = self.next_out = 0
        self.received_at = self.sent_at = time.monotonic()
        self.waiting: list[wire.Down] = []

    def sid(self, client: int) -> str:
        """Return the id of a worker's client in this process. Ids of local clients contain no colon."""
        return f"{self.worker}:{self.link}:{client}"
